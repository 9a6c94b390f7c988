"""A stand-in for PostgREST, which no package of Python, Node or Debian brings: the requests that the real client of
Supabase makes become the SQL that PostgREST makes of them, under a role with the rights of `dibs_sql`.

What it knows is what story 011 uses: `GET /rest/v1/VIEW` with `select=*`, `eq`, `in`, `order` and `limit`, and
`POST /rest/v1/rpc/FUNCTION` with arguments by name; the schema by `Accept-Profile` and `Content-Profile`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

#: Of the functions of this name in a schema, as PostgREST looks for them: by the names of arguments.
FUNCTIONS = (
    "SELECT proargnames[1:pronargs], proargtypes::regtype[]::text[], proretset FROM pg_proc"
    " WHERE pronamespace = to_regnamespace(%s) AND proname = %s AND proargnames[1:pronargs] @> %s"
)
CALL = (
    "WITH pgrst_source AS (SELECT pgrst_call.* FROM (SELECT %s::json AS json_data) pgrst_payload,"
    " LATERAL (SELECT * FROM json_to_record(pgrst_payload.json_data) AS _({columns})) pgrst_body,"
    " LATERAL ({call}) pgrst_call)"
    " SELECT coalesce(json_agg({answer}), '[]') FROM pgrst_source _postgrest_t"
)
READ = (
    "WITH pgrst_source AS (SELECT {view}.* FROM {view}{where}{order}{limit})"
    " SELECT coalesce(json_agg(_postgrest_t), '[]') FROM pgrst_source _postgrest_t"
)
OPERATORS = {"eq": "{} = {}", "in": "{} = ANY ({})"}
ORDERS = {"asc": "ASC", "desc": "DESC"}


def rpc(client: Connection, schema: str, function: str, arguments: dict[str, Any]) -> Any:
    """A call as PostgREST makes it: arguments by name, out of one JSON body, in a transaction."""
    with client.transaction():
        client.execute("SELECT set_config('search_path', %s, true)", [f'"{schema}", "public"'])
        found = client.execute(FUNCTIONS, [schema, function, list(arguments)]).fetchall()
        if len(found) != 1:
            raise psycopg.errors.UndefinedFunction(f"{len(found)} functions {schema}.{function}{(*arguments,)}")
        names, types, is_set = found[0]
        kinds = dict(zip(names, types, strict=True))
        words = sql.SQL(CALL).format(
            columns=_listed(sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kinds[name])) for name in arguments),
            call=sql.SQL("SELECT * FROM {}({})" if is_set else "SELECT {}({}) AS pgrst_scalar").format(
                sql.Identifier(schema, function),
                _listed(sql.SQL("{0} := pgrst_body.{0}").format(sql.Identifier(name)) for name in arguments),
            ),
            answer=sql.SQL("_postgrest_t" if is_set else "_postgrest_t.pgrst_scalar"),
        )
        ((rows,),) = client.execute(words, [json.dumps(arguments)])
    return rows if is_set else rows[0]


def read(client: Connection, schema: str, view: str, query: list[tuple[str, str]]) -> Any:
    """The rows of a view, for a query as it stands in a URL."""
    asked = dict(query)
    asked.pop("select", None)
    order, limit = asked.pop("order", ""), asked.pop("limit", "")
    conditions = [_condition(column, *told.split(".", 1)) for column, told in asked.items()]
    words = sql.SQL(READ).format(
        view=sql.Identifier(schema, view),
        where=sql.SQL(" WHERE " if conditions else "") + sql.SQL(" AND ").join(conditions),
        order=sql.SQL(" ORDER BY " if order else "") + _listed(_ordered(one) for one in order.split(",") if one),
        limit=sql.SQL(f" LIMIT {int(limit)}" if limit else ""),
    )
    ((rows,),) = client.execute(words)
    return rows


@contextmanager
def postgrest(url: str, key: str, schemas: tuple[str, ...]) -> Iterator[str]:
    """An address under which the views and functions of these schemas are, for whoever has the key."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            view = parts.path.removeprefix("/rest/v1/")
            self._answer("Accept-Profile", lambda client, schema: read(client, schema, view, parse_qsl(parts.query)))

        def do_POST(self) -> None:
            function = self.path.removeprefix("/rest/v1/rpc/")
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer("Content-Profile", lambda client, schema: rpc(client, schema, function, arguments))

        def _answer(self, header: str, work: Any) -> None:
            schema = self.headers.get(header, schemas[0])
            if self.headers.get("Authorization") != f"Bearer {key}":
                self._send(401, {"code": "PGRST301", "message": "the key is not good"})
            elif schema not in schemas:
                self._send(406, {"code": "PGRST106", "message": f"Invalid schema: {schema}"})
            else:
                try:
                    with psycopg.connect(url, autocommit=True) as client:
                        self._send(200, work(client, schema))
                except psycopg.Error as error:
                    self._send(400, {"code": error.sqlstate, "message": error.diag.message_primary or str(error)})

        def _send(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _condition(column: str, operator: str, told: str) -> sql.Composed:
    value = "{" + told.strip("()") + "}" if operator == "in" else told
    return sql.SQL(OPERATORS[operator]).format(sql.Identifier(column), sql.Literal(value))


def _ordered(told: str) -> sql.Composed:
    column, _, direction = told.partition(".")
    return sql.SQL("{} ").format(sql.Identifier(column)) + sql.SQL(ORDERS[direction])


def _listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)
