"""The one form of a subject: keys that mean the same issue of GitHub become one key."""

from __future__ import annotations


def canonical(key: str) -> str:
    """The key in Unicode form NFC, or `github:owner/repository#12` for an issue or a pull request of GitHub."""
    if not key.isascii():
        import unicodedata

        key = unicodedata.normalize("NFC", key)
    return _of_address(key) or _in_lower_case(key)


def _of_address(key: str) -> str | None:
    """The key of an issue by its address, or by that of a part of it, such as a comment."""
    scheme, is_address, path = key.partition("://github.com/")
    if not is_address or scheme not in ("https", "http"):
        return None
    parts = path.partition("?")[0].partition("#")[0].split("/")
    is_issue = len(parts) > 3 and parts[2] in ("issues", "pull") and parts[3].isascii() and parts[3].isdecimal()
    return f"github:{parts[0]}/{parts[1]}#{parts[3]}".lower() if is_issue else None


def _in_lower_case(key: str) -> str:
    """GitHub does not distinguish upper and lower case in the names of repositories."""
    repository, is_issue, number = key.partition("#")
    if is_issue and repository.startswith("github:") and repository.count("/") == 1:
        return f"{repository.lower()}#{number}"
    return key
