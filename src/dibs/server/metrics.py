"""Figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter

from dibs.server.service import Service


class Figures:
    def __init__(self, service: Service) -> None:
        self._service = service

    def measured(self, method: str, path: str, status: int, seconds: float) -> None:
        pass

    def routes(self) -> APIRouter:
        return APIRouter()
