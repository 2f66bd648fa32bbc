"""How learners log in: a name of the list, the class password once, and from then on their own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from jupyterhub.auth import Authenticator
from traitlets import Unicode

from .names import TEACHER, login_name
from .passwords import LEAST_LETTERS, MOST_LETTERS, Passwords, Patience
from .refusal import tell

FORM = """
<form action="{{ authenticator_login_url }}" method="post" role="form" class="m-auto"
      style="max-width: 24rem">
  <h1 class="h3">Log in</h1>
  {% if login_error %}
  <p class="login_error" role="alert">{{ login_error | e }}</p>
  {% endif %}
  <input type="hidden" name="_xsrf" value="{{ xsrf }}" />
  <label for="username_input">Your name, as on the list</label>
  <input id="username_input" class="form-control" name="username" autocomplete="username" required
         autocapitalize="off" value="{{ (username or "") | e }}" autofocus />
  <label for="password_input">Your password, or the class password on your first visit</label>
  <input id="password_input" class="form-control" name="password" type="password" required
         autocomplete="current-password" />
  <label for="own_input">First visit: choose your own password, at least LEAST letters</label>
  <input id="own_input" class="form-control" name="own" type="password"
         autocomplete="new-password" />
  <button class="btn btn-jupyter form-control mt-3">Log in</button>
</form>
""".replace("LEAST", str(LEAST_LETTERS))


class ClassAuthenticator(Authenticator):
    state = Unicode(help="The folder that holds passwords.json").tag(config=True)

    def __init__(self, **about) -> None:
        super().__init__(**about)
        self.patience = Patience()

    def get_custom_html(self, base_url: str) -> str:
        return FORM

    def normalize_username(self, username: str) -> str:
        return login_name(username)

    async def authenticate(self, handler, data: dict) -> str | None:
        """The name, or None. An error with a sentence where they have to wait or to choose."""
        name = login_name(data.get("username", ""))
        address = handler.request.remote_ip if handler else ""
        wait = self.patience.wait_for(name, address)
        if wait:
            raise tell(429, f"Too many wrong passwords: wait {wait:.0f} seconds.")
        # Hashing takes 50 ms, in which the hub goes on serving others.
        said = await asyncio.to_thread(
            self._check, name, data.get("password", ""), data.get("own", "")
        )
        if said is None:
            self.patience.failed(name, address)
            return None
        if said:
            raise tell(400, said)
        self.patience.succeeded(name)
        return name

    def _check(self, name: str, password: str, own: str) -> str | None:
        """ "" if they may come in, None if not, or what they have to do first."""
        passwords = Passwords(Path(self.state))
        if passwords.is_own(name, password):
            return ""
        if name == TEACHER or name not in self.allowed_users or passwords.has_own(name):
            return None
        if not passwords.is_class(password):
            return None
        if not LEAST_LETTERS <= len(own) <= MOST_LETTERS or own == password:
            return (
                f"Choose a password of your own, {LEAST_LETTERS} letters or more and not the class "
                "password, and write it into the last field."
            )
        return "" if passwords.choose(name, own) else None
