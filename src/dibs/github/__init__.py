"""GitHub: its issues, pull requests and workflow runs become items.

What GitHub sends or answers becomes a `Fact` (payload.py): the whole state of one subject, and a version of it. The
policy of `dibs.toml` (policy.py) says what to do about a fact. `decide` (decide.py) compares the fact with the item of
its subject and names the verbs that are left to do, and `converge` (apply.py) calls them; ends without an item are
noted (ends.py). A webhook, `dibs github watch` (watch.py, with the client in api.py) and `dibs import --from github`
share these rules, so a fact that arrives twice, late or by two ways changes nothing more.
"""
