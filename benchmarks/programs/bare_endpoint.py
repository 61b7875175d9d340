"""The limit of the timer service: a FastAPI endpoint that writes its body to Kafka, and no more."""

import asyncio
import threading
from typing import Any

from confluent_kafka import Producer
from fastapi import FastAPI, Request, Response

from benchmarks.program import tell, told, wait_for_command
from hourhand import Settings
from hourhand.scheduler.cli.http_running import HttpServer


def main() -> None:
    """Serve until told to stop."""
    settings = Settings(**told()["settings"])
    server = HttpServer(_app(settings), host="127.0.0.1", port=0)
    if not server.start():
        raise SystemExit(1)
    tell("ready", port=server.port)
    wait_for_command("stop")
    server.stop()


def _app(settings: Settings) -> FastAPI:
    app = FastAPI()
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
        }
    )
    threading.Thread(target=_serve_reports, args=(producer,), daemon=True).start()

    @app.post("/timers")
    async def create(request: Request) -> Response:
        body = await request.body()
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Any] = loop.create_future()

        def delivered(error: Any, _message: Any) -> None:
            loop.call_soon_threadsafe(written.set_result, error)

        producer.produce(settings.topic.name, body, on_delivery=delivered)
        error = await written
        return Response(status_code=200 if error is None else 503)

    return app


def _serve_reports(producer: Producer) -> None:
    while True:
        producer.poll(0.1)


if __name__ == "__main__":
    main()
