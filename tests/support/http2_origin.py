"""An origin that speaks HTTP/2 and nothing else, and remembers what its clients sent."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Http2Origin:
    """Answers each path with the status, headers and body that the test gave; others with 404."""

    certificate: Path
    # Whether a client with this hello (the first TLS record) is let in.
    lets_in: Callable[[bytes], bool] = lambda _hello: True
    answers: dict[str, Answer | Callable[[dict[str, str]], Answer]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)  # paths whose body is reset before its end
    requests: list[dict[str, str]] = field(default_factory=list)
    bodies: dict[str, bytes] = field(default_factory=dict)
    refused: int = 0  # connections
    silent: str = ""  # a client that is not let in waits for an answer to its "hello" or "request", not to be cut off

    def __post_init__(self) -> None:
        """Begin to listen."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate)
        self._context.set_alpn_protocols(["h2"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def present(self, certificate: Path) -> None:
        """Present this certificate from now on."""
        self._context.load_cert_chain(certificate)

    def close(self) -> None:
        """Stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ssl.SSLError), connection:
            connection.settimeout(120)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hello = connection.recv(16_384, socket.MSG_PEEK)
            if not self.lets_in(hello):
                self.refused += 1
                if self.silent == "request":
                    with self._context.wrap_socket(connection, server_side=True) as secured:
                        while secured.recv(65_536):
                            pass
                while self.silent and connection.recv(65_536):
                    pass
                return
            with self._context.wrap_socket(connection, server_side=True) as secured:
                if secured.selected_alpn_protocol() != "h2":
                    self.refused += 1
                    return
                self._converse(secured)

    def _converse(self, sock: ssl.SSLSocket) -> None:
        spoken = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        spoken.initiate_connection()
        heads: dict[int, dict[str, str]] = {}
        unsent: dict[int, memoryview] = {}
        while True:
            sock.sendall(spoken.data_to_send())
            data = sock.recv(65_536)
            if not data:
                return
            for event in spoken.receive_data(data):
                if isinstance(event, RequestReceived):
                    heads[event.stream_id] = {str(k): str(v) for k, v in event.headers}
                elif isinstance(event, DataReceived):
                    path = heads[event.stream_id][":path"]
                    self.bodies[path] = self.bodies.get(path, b"") + event.data
                    spoken.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, StreamEnded):
                    unsent[event.stream_id] = self._answer(spoken, event.stream_id, heads[event.stream_id])
                elif isinstance(event, StreamReset):
                    unsent.pop(event.stream_id, None)
                if isinstance(event, StreamEnded | WindowUpdated):
                    self._send(sock, spoken, heads, unsent)

    def _answer(self, spoken: H2Connection, stream: int, head: dict[str, str]) -> memoryview:
        self.requests.append(head)
        answer = self.answers.get(head[":path"], (404, {}, b"nothing here"))
        status, headers, body = answer(head) if callable(answer) else answer
        fields = [(":status", str(status)), *headers.items()]
        spoken.send_headers(stream, fields, end_stream=not body)
        return memoryview(body)

    def _send(
        self, sock: ssl.SSLSocket, spoken: H2Connection, heads: dict[int, dict[str, str]], unsent: dict[int, memoryview]
    ) -> None:
        for stream in list(unsent):
            while unsent[stream]:
                size = min(
                    spoken.local_flow_control_window(stream), spoken.max_outbound_frame_size, len(unsent[stream])
                )
                if size <= 0:
                    break
                rest = unsent[stream][size:]
                is_cut = heads[stream][":path"] in self.cut and not rest
                spoken.send_data(stream, unsent[stream][:size], end_stream=not rest and not is_cut)
                if is_cut:
                    spoken.reset_stream(stream, ErrorCodes.INTERNAL_ERROR)
                unsent[stream] = rest
                sock.sendall(spoken.data_to_send())
            if not unsent[stream]:
                del unsent[stream]
