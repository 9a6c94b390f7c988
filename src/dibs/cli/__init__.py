"""The command line: parse, call a verb, render. Each command's code is imported only when that command runs."""
