"""Logs learners in: by a name of the list, with the class password once, and then with their
own."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import os
import socket
import struct
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
  <label class="mt-2"><input name="named" type="checkbox" /> Show my name on the group's board,
    which all learners see. Otherwise it shows a number.</label>
  <button class="btn btn-jupyter form-control mt-3">Log in</button>
</form>
""".replace("LEAST", str(LEAST_LETTERS))


COOKIE = "debubble-came-in"
"""The cookie that names the learner who last logged in with this browser."""


def browser_of(handler, name: str) -> str:
    """Returns a key of the browser if this learner has logged in with it before, else "": then
    guesses that others make from the same address don't delay them."""
    if handler.get_signed_cookie(COOKIE) != name.encode():
        return ""
    return "browser " + hashlib.sha256(handler.get_cookie(COOKIE).encode()).hexdigest()


def address_of(request) -> str:
    """Returns the origin of a request, in a form that one person can't multiply.

    The proxy is root's, so its statement is trusted. A learner's own program can reach the hub's
    socket too: the kernel gives its user id, whatever the headers say.
    """
    connection = request.connection.stream.socket
    if connection.family == socket.AF_UNIX:
        about = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        _, uid, _ = struct.unpack("3i", about)
        if uid != os.geteuid():
            return f"user {uid}"
    try:
        address = ipaddress.ip_address(request.remote_ip)
    except ValueError:
        return ""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return "this host"
    if address.version == 6:  # A home has all of these addresses.
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


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
        """Returns the learner's login name, or None for a wrong password. Raises an error with a
        sentence if the learner has to wait or to choose a password."""
        name = login_name(data.get("username", ""))
        # All unknown names share one count, or they would push known names out of memory.
        known = name if name == TEACHER or name in self.allowed_users else ""
        who = browser_of(handler, name) or address_of(handler.request)
        wait = self.patience.begin(known, who)
        if wait is None:
            raise tell(429, "Too many wrong passwords: wait a minute.")
        await asyncio.sleep(wait)
        # Hashing takes 50 ms, in which the hub keeps serving other requests.
        said = await asyncio.to_thread(
            self._check,
            name,
            data.get("password", ""),
            data.get("own", ""),
            agrees=bool(data.get("named")),
        )
        if said is None:
            wait = self.patience.wait_for(known, who)
            if wait:
                sentence = "Too many wrong passwords: wait {:.0f} seconds before the next."
                raise tell(429, sentence.format(max(1, wait)))
            return None
        self.patience.succeeded(known, who)
        if said:
            raise tell(400, said)
        handler.set_signed_cookie(
            COOKIE, name, path=handler.hub.base_url, httponly=True, samesite="Lax"
        )
        return name

    def _check(self, name: str, password: str, own: str, *, agrees: bool = False) -> str | None:
        """Returns "" if the learner may log in, None if not, or a sentence with what they have to
        do first."""
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
        return "" if passwords.choose(name, own, agrees=agrees) else None
