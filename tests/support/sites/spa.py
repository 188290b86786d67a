"""Applications whose pages exist only after JavaScript has run.

Swagger UI, from its Python wheel, shows two programming interfaces as their own projects publish
them; PDF.js, from Debian, shows Debian's manuals. Both are lighter to get on a bare Debian than
npm, which brings some three hundred packages along.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tests.support.sites.cache import built, copy_followed, unpack_packages, unpack_wheels
from tests.support.sites.docs import library

WHEELS = """\
jupyter_server==2.21.1 \
    --hash=sha256:2a6467606af7dbae2e7e31640030025969e15db6a649eae334af90415dc71dca
jupyterlab_server==2.28.1 \
    --hash=sha256:4bd36c7c11d872e15cefa4951e12380a47e6901687165332dd50a007cb367ad9
swagger_ui_bundle==1.1.0 \
    --hash=sha256:f7526f7bb99923e10594c54247265839bec97e96b0438561ac86faf40d40dd57
"""
_SPECIFICATIONS = {
    "jupyter-server.yaml": "jupyter_server/services/api/api.yaml",
    "jupyterlab-server.yaml": "jupyterlab_server/rest-api.yml",
}
# Swagger UI's own configuration file: which document it opens comes from the page's query.
_INITIALIZER = """\
window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "/specifications/jupyter-server.yaml",
    queryConfigEnabled: true,
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    layout: "StandaloneLayout",
  });
};
"""


@dataclass(frozen=True, slots=True)
class SpaApplications:
    """The applications.

    Attributes:
        root: the folder to serve.
        pages: paths with queries, each a view of its own.
        typeface: a TrueType font that came along, for pages that need one; None when there is none.
    """

    root: Path
    pages: tuple[str, ...]
    typeface: Path | None


def applications() -> SpaApplications:
    """Return the applications, fetched and arranged on the first call.

    Raises:
        SiteUnavailableError: pip or apt could not deliver them.
    """
    manuals = library()
    root = built("spa", f"5 {WHEELS} {_SPECIFICATIONS} {_INITIALIZER} {manuals.pdfs}", _build)
    swagger = [
        f"/swagger/index.html?url=/specifications/{name}&docExpansion={expansion}"
        for name in _SPECIFICATIONS
        for expansion in ("list", "none", "full")
    ]
    viewer = [f"/pdf/web/viewer.html?file={quote('/manuals/' + pdf.rpartition('/')[2])}" for pdf in manuals.pdfs]
    typeface = next(iter(sorted((root / "pdf").rglob("LiberationSans-Regular.ttf"))), None)
    return SpaApplications(root, (*swagger, *viewer), typeface)


def _build(folder: Path) -> None:
    tree = folder / "tree"
    tree.mkdir()
    unpack_wheels(WHEELS, tree)
    unpack_packages(("libjs-pdf", "pdf.js-common"), tree)
    (swagger,) = (tree / "swagger_ui_bundle" / "vendor").glob("swagger-ui-4*")
    shutil.copytree(swagger, folder / "swagger", ignore=shutil.ignore_patterns("*.j2", "*.map"))
    (folder / "swagger" / "swagger-initializer.js").write_text(_INITIALIZER)
    (folder / "specifications").mkdir()
    for name, source in _SPECIFICATIONS.items():
        shutil.copyfile(tree / source, folder / "specifications" / name)
    # PDF.js keeps its pictures and languages in a second package, and links there.
    copy_followed(tree / "usr/share/javascript/pdf", folder / "pdf", tree)
    shutil.copytree(library().root / "pdf", folder / "manuals")
    shutil.rmtree(tree)
