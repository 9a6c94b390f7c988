"""The fence at the push: git hooks that name the claim of each commit, and refuse the commits of lost claims.

`prepare-commit-msg` writes the trailer `Dibs-Claim: ITEM/TOKEN` into the message (`trailers`, `authorship`), so that
the claim travels with the commit through rebases, squashes and cherry-picks. `pre-push`, and `pre-receive` of a shared
repository, refuse a push that brings a commit to a ref (`refs`) if its run was lost and no later run of the item builds
on it there (`verify`). `hooks` is what each hook does, `install` puts the hooks into a repository and removes them.
"""
