"""What a server needs to accept webhooks: the policy, and the secrets that deliveries are signed with."""

from __future__ import annotations

import os
import stat

from dibs import config
from dibs.errors import Invalid
from dibs.github.policy import Policy
from dibs.github.policy_file import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dibs.location import Place

SECRET_LENGTH_MIN = 16
#: Each is tried for every delivery, also for one that nobody signed.
SECRETS_MAX = 10
SECRETS_BYTES_MAX = 64_000


class Intake:
    """Not a `Value`, whose text would show the secrets."""

    __slots__ = ("policy", "secrets")

    def __init__(self, policy: Policy, secrets: tuple[bytes, ...]) -> None:
        self.policy, self.secrets = policy, secrets


def load_intake(place: Place) -> Intake:
    policy = load(place)
    return Intake(policy, secrets(policy))


def secrets(policy: Policy) -> tuple[bytes, ...]:
    """The secrets that a webhook may be signed with: those of the environment, and a line each of `secrets_file`."""
    given = os.environ.get(config.ENV_GITHUB_SECRET, "").split()
    if policy.secrets_file is not None:
        given += _kept_secrets(policy.secrets_file)
    for secret in given:
        if len(secret) < SECRET_LENGTH_MIN:
            problem = f"a secret of GitHub's webhooks needs {SECRET_LENGTH_MIN} characters or more"
            raise Invalid(f"{problem}; make one with: openssl rand -hex 32", field=config.ENV_GITHUB_SECRET)
    if len(given) > SECRETS_MAX:
        raise Invalid(f"{len(given)} secrets are too many; keep {SECRETS_MAX} at most", field=config.ENV_GITHUB_SECRET)
    return tuple(secret.encode() for secret in given)


def _kept_secrets(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(SECRETS_BYTES_MAX)
    except OSError as error:
        raise Invalid(f"cannot read secrets_file {path}: {error.strerror}", field="secrets_file") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        # Also keeps a `dibs.toml` that came with a clone from naming a file whose content everybody knows.
        raise Invalid(f"{path} can be read by others; type: chmod 600 {path}", field="secrets_file")
    try:
        found = content.decode("ascii").split()
    except UnicodeDecodeError:
        raise Invalid(f"{path} must have secrets of ASCII characters, a line each", field="secrets_file") from None
    if not found:
        raise Invalid(f"{path} has no secret; make one with: openssl rand -hex 32", field="secrets_file")
    return found
