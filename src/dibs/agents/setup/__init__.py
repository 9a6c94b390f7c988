"""`dibs setup CLIENT`: connects a coding agent to dibs by files alone, and takes that back.

A client's module says what has to be in its files, as a list of edits. An edit only inserts text, so that the rest of a
file, its comments and its formatting stay as they are (`json_edit`, `toml_edit`, `whole_file`). `plan` compares the
edits with the files, and gives the changes to show and to write. A record of what was inserted (`record`) lets
`--remove` restore the bytes that were there before.
"""
