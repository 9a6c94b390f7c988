"""Files of clients as people and clients leave them, and such that cannot be edited."""

from __future__ import annotations

JSON_FILES = {
    "empty file": "",
    "empty object": "{}",
    "blank object": "{ }\n",
    "one line": '{"model": "opus", "hooks": {"Stop": []}}',
    "two spaces": '{\n  "model": "opus"\n}\n',
    "tabs": '{\n\t"a": [1, 2],\n\t"b": {\n\t\t"c": null\n\t}\n}',
    "windows": '{\r\n    "model": "opus"\r\n}\r\n',
    "comments": '// mine\n{\n  "a": 1, // one\n  /* two */ "b": 2 // last\n}\n',
    "trailing comma": '{\n  "a": [\n    1,\n  ],\n}\n',
    "groups": '{\n  "hooks": {},\n  "enabledPlugins": {\n    "x@y": true\n  },\n  "extraKnownMarketplaces": {}\n}\n',
    "hooks": '{"hooks": {"SessionStart": [{"command": "mine.sh"}], "sessionStart": [], "Stop": []}, "é": "ü\\n"}\n',
}
TOML_FILES = {
    "empty": "",
    "other tables": 'model = "o"  # mine\n\n[features]\nhooks = true\n',
    "no newline": "[features]\nhooks = true",
    "table": "[sandbox_workspace_write]\nnetwork_access = true\n\n[features]\nx = 1\n",
    "roots": '[sandbox_workspace_write] # here\nwritable_roots = ["/data"] # and there\n',
    "empty roots": "[sandbox_workspace_write]\nwritable_roots = [ ]\n",
    "lines": '[sandbox_workspace_write]\nwritable_roots = [\n  "/data", # mine\n  "/more",\n]\n',
    "dotted": 'sandbox_workspace_write.writable_roots = ["/data"]\n',
    "inline": "sandbox_workspace_write = { writable_roots = ['/data'], network_access = true }\n",
    "windows": '[sandbox_workspace_write]\r\nwritable_roots = ["/data"]\r\n',
    "text that looks like it": 'note = """\n[sandbox_workspace_write]\nwritable_roots = []\n"""\n',
}
#: Text, and the line that is named.
BROKEN = {
    "a value is missing": ('{\n  "a": 1,\n  "b":\n}\n', 4),
    "a comma is missing": ('{\n  "a": 1\n  "b": 2\n}\n', 3),
    "it ends too early": ('{\n  "a": [1', 2),
    "something follows": ("{}\n\n{}\n", 3),
    "a key twice": ('{\n  "hooks": {},\n  "hooks": {}\n}\n', 3),
    "not an object": ("\n[]\n", 2),
    "other hooks": ('{\n  "hooks": [],\n  "enabledPlugins": [],\n  "extraKnownMarketplaces": []\n}\n', None),
    "deep": ('{"a": ' + "[" * 10_000, 1),
}
