"""`mixlens app`: pages of a local web server, on which texts are typed and results answer.

A question (`questions.py`) is what a form sends: a verb of the command line (`verbs.py`) and its arguments. It waits in
one queue (`work.py`), is worked out by one thread with one of the models that were named (`models.py`), and comes back
as the page that `to_html` writes, under the form (`pages.py`). `server.py` has the routes, `guard.py` who is let in.
"""

from mixlens.app.models import Models
from mixlens.app.server import application, serve

__all__ = ["Models", "application", "serve"]
