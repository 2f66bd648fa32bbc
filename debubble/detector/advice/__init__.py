"""The advice for calls that make the host wait: a table of remedies for each topic."""

from .by_text import BY_THE_TEXT
from .inside_libraries import INSIDE_PYTORCH
from .operators import OF_OPERATORS
from .others import OTHERS
from .set_up import OF_SETUP
from .uploads import OF_UPLOADS

REMEDIES = (
    *OF_SETUP,
    *INSIDE_PYTORCH,
    *OF_UPLOADS,
    *OF_OPERATORS,
    *BY_THE_TEXT,
    *OTHERS,
)
"""All remedies. The first that matches is used."""
