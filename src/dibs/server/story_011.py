"""The story-011 contract: its claim function over HTTP."""

from __future__ import annotations

from fastapi import APIRouter

from dibs.server.service import Service


def routes(service: Service) -> APIRouter:
    return APIRouter()
