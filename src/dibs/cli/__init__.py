"""The command line: parse the arguments, call a verb, print the answer. A command's module is imported when it runs."""
