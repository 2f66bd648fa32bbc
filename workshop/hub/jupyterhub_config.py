"""The configuration of JupyterHub: `python -m workshop.hub` starts it with this file."""

import sys

from jupyterhub.proxy import ConfigurableHTTPProxy
from traitlets import validate

from workshop.hub.limits import Limits
from workshop.hub.login import ClassAuthenticator
from workshop.hub.names import TEACHER, read_names
from workshop.hub.settings import handed_on, settings, socket_url
from workshop.hub.spawner import KEPT, LearnerSpawner
from workshop.hub.workspaces import Workspaces

TERMINALS = '{"shell_command": ["bash", "-c", "exec bash --rcfile \\"$DEBUBBLE_TERMINAL\\""]}'

BOARD = "/services/board/"
CALLBACK = f"{BOARD}oauth_callback"


class ProxyOfSockets(ConfigurableHTTPProxy):
    """The proxy, which may also lead to the board's socket: JupyterHub itself would only allow an
    address."""

    @validate("extra_routes")
    def _validate_extra_routes(self, proposal):
        return proposal["value"]


c = get_config()  # noqa: F821
ours = settings()
names = read_names(ours.names, host_users=ours.host_users)
scheme = "https" if ours.certificate else "http"

# The users.
if ours.host_users:
    c.JupyterHub.authenticator_class = "pam"
else:
    c.JupyterHub.authenticator_class = ClassAuthenticator
    c.ClassAuthenticator.state = str(ours.state)
c.Authenticator.allowed_users = set(names)
c.Authenticator.admin_users = {TEACHER}
c.JupyterHub.admin_access = False

# The addresses and sockets.
c.JupyterHub.bind_url = f"{scheme}://{ours.address}:{ours.port}"
c.JupyterHub.hub_bind_url = c.JupyterHub.hub_connect_url = socket_url(ours.hub_socket)
c.JupyterHub.hub_socket_mode = 0o666  # Learners' servers connect to it, as themselves.
c.JupyterHub.trusted_downstream_ips = list(ours.trusted_proxies)
c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = ours.certificate, ours.key
c.JupyterHub.proxy_class = ProxyOfSockets
c.ProxyOfSockets.should_start = False  # It keeps running while the hub is restarted.
c.ProxyOfSockets.api_url = socket_url(ours.proxy_socket)
c.ProxyOfSockets.extra_routes = {BOARD: socket_url(ours.board_socket)}
c.ProxyOfSockets.auth_token = ours.proxy_token.read_text()

# State that must survive a restart of the hub: servers keep running, and are found again.
c.JupyterHub.cleanup_servers = False
c.JupyterHub.db_url = f"sqlite:///{ours.state}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(ours.state / "cookie_secret")

# A learner's server.
c.JupyterHub.spawner_class = LearnerSpawner
c.LearnerSpawner.workspaces = Workspaces(ours)
c.LearnerSpawner.limits = Limits(ours.memory_gb, ours.processes, ours.cores)
c.Spawner.env_keep = list(KEPT)
c.Spawner.default_url = "/lab/tree/my/chapters/00_reading_a_timeline.ipynb"
c.Spawner.start_timeout = c.Spawner.http_timeout = 600
c.Spawner.args = [
    # A kernel's sockets are files that only its learner can open, instead of ports that all can.
    "--KernelManager.transport=ipc",
    f"--ServerApp.terminado_settings={TERMINALS}",
]
c.Spawner.environment = {"OMP_NUM_THREADS": "1"}
c.JupyterHub.concurrent_spawn_limit = 0  # A whole class comes at once, so no spawn is rejected.

# The services beside the hub.
c.JupyterHub.load_roles = [
    {
        "name": "culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["culler"],
    },
    {"name": "board", "scopes": ["list:users", "read:users:name"], "services": ["board"]},
    {"name": "user", "scopes": ["self", "access:services!service=board"]},
]
WITH_HUB = [sys.executable, "-m", "workshop.hub.ends_with_hub", sys.executable, "-m"]
c.JupyterHub.services = [
    {
        "name": "culler",
        "command": [
            *WITH_HUB,
            "workshop.hub.culler",
            "--url=http://hub/hub/api",
            f"--timeout={ours.idle_minutes * 60}",
        ],
        "environment": handed_on(),
    },
    {
        "name": "board",
        "command": [*WITH_HUB, "workshop.hub.board_service"],
        "environment": handed_on()
        | {"JUPYTERHUB_SERVICE_PREFIX": BOARD, "JUPYTERHUB_OAUTH_CALLBACK_URL": CALLBACK},
        "oauth_redirect_uri": CALLBACK,
        "oauth_no_confirm": True,
    },
]
