"""How a page presents itself to the sites that it asks."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PageOptions:
    """How a page presents itself.

    Attributes:
        width: of the viewport, in CSS pixels.
        height: of the viewport, in CSS pixels.
        user_agent: the User-Agent header.
        language: the Accept-Language header.
        version: the browser's, for the client hints that go with the User-Agent.
    """

    width: int
    height: int
    user_agent: str
    language: str
    version: str

    def identity(self) -> dict[str, Any]:
        """The parameters of ``Emulation.setUserAgentOverride``."""
        major = self.version.split(".", 1)[0]
        brands = [
            {"brand": "Chromium", "version": major},
            {"brand": "Not)A;Brand", "version": "24"},
        ]
        full = [{**brand, "version": f"{brand['version']}.0.0.0"} for brand in brands]
        return {
            "userAgent": self.user_agent,
            "acceptLanguage": self.language,
            "platform": "Linux x86_64",
            "userAgentMetadata": {
                "brands": brands,
                "fullVersionList": full,
                "platform": "Linux",
                "platformVersion": "",
                "architecture": "x86",
                "bitness": "64",
                "model": "",
                "mobile": False,
            },
        }
