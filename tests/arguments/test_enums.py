"""Enums as arguments: members of importable classes come back, others are refused."""

from __future__ import annotations

import enum
import http
import json
import re
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from steady_queue.arguments import DeserializationError, loads
from tests.arguments.helpers import Shade, back, refusal
from tests.shop.models import Customer

if TYPE_CHECKING:
    from pathlib import Path


class TestEnums:
    @pytest.mark.parametrize(
        "member",
        [http.HTTPStatus.OK, Customer.Tier.GOLD, socket.AF_INET, re.RegexFlag.ASCII, re.A | re.I, re.RegexFlag(0)],
    )
    def test_members_and_flags_of_apps_and_the_standard_library_come_back(self, member: enum.Enum) -> None:
        assert back(member) is member

    def test_the_member_of_a_class_outside_every_app_is_refused_in_favour_of_its_value(self) -> None:
        assert refusal({"shade": Shade.DARK}).startswith("args[0]['shade']: a Shade cannot be stored")
        assert ".value" in refusal(Shade.DARK)

    def test_a_class_that_cannot_be_found_by_its_name_is_refused(self) -> None:
        class Double(enum.Enum):
            OK = 200

        assert ".value" in refusal(Double.OK)
        Double.__module__, Double.__qualname__ = "http", "HTTPStatus"
        assert ".value" in refusal(Double.OK)

    @pytest.mark.parametrize(
        "path",
        [
            "os:system",
            "os.path:join",
            "tests.arguments.helpers:Shade",
            "tests.shop.models:Customer",
            "tests.shop.models:Customer.Tier.GOLD",
            "tests.shop.models:Customer.objects.model",
            "tests.shop.gone:Tier",
            "tests.shop.models:Gone",
            "http:",
            ":",
            "",
            None,
            [],
        ],
    )
    def test_a_text_naming_anything_but_a_known_enum_class_is_refused(self, path: object) -> None:
        text = json.dumps([1, [{"$": "enum", "v": path, "name": "GOLD"}], {}])
        with pytest.raises(DeserializationError):
            loads(text)

    @pytest.mark.parametrize("module", ["antigravity", "this", "unittest.__main__", "tests.shop.__main__", "os.path"])
    def test_a_text_cannot_run_a_module_that_acts_when_it_is_imported(self, module: str) -> None:
        with pytest.raises(DeserializationError, match="neither in an installed app nor in the standard library"):
            loads(json.dumps([1, [{"$": "enum", "v": f"{module}:X", "name": "Y"}], {}]))

    def test_a_text_cannot_import_a_module_that_belongs_to_no_app(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "stranger.py").write_text("import enum\nclass Mood(enum.Enum):\n    GOOD = 1\n")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(DeserializationError, match="stranger"):
            loads('[1,[{"$":"enum","v":"stranger:Mood","name":"GOOD"}],{}]')
        assert "stranger" not in sys.modules

    def test_an_app_module_that_ends_the_process_when_imported_does_not_end_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import tests.shop

        (tmp_path / "leaver.py").write_text("raise SystemExit\n")
        monkeypatch.setattr(tests.shop, "__path__", [str(tmp_path)])
        with pytest.raises(DeserializationError, match="exit the process"):
            loads('[1,[{"$":"enum","v":"tests.shop.leaver:Mood","name":"GOOD"}],{}]')

    def test_a_member_that_is_gone_is_named(self) -> None:
        with pytest.raises(DeserializationError, match=r"'tests\.shop\.models:Customer\.Tier' has no member 'LOST'"):
            loads('[1,[{"$":"enum","v":"tests.shop.models:Customer.Tier","name":"LOST"}],{}]')

    def test_only_a_flag_is_restored_by_value(self) -> None:
        with pytest.raises(DeserializationError, match="has no member 200"):
            loads('[1,[{"$":"enum","v":"http:HTTPStatus","value":200}],{}]')
