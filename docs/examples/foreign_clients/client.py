# client.py OPERATOR.JSON WORKER < ERROR.JSON: reports a failure for a worker, and prints the answers.
import base64, json, socket, ssl, sys, urllib.parse
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

me, worker, report = json.load(open(sys.argv[1])), sys.argv[2], sys.stdin.buffer.read()
at = urllib.parse.urlsplit(me["url"])
bus = socket.create_connection((at.hostname, at.port), 30)
if me.get("ca"):  # TLS from the first byte
    bus = ssl.create_default_context(cadata=me["ca"]).wrap_socket(bus, server_hostname=at.hostname)
lines = bus.makefile("rb")
nonce = json.loads(lines.readline().split(b" ", 1)[1])["nonce"]  # from the server's INFO
seed = base64.b32decode(me["seed"] + "=" * (-len(me["seed"]) % 8))[2:34]
proof = base64.urlsafe_b64encode(Ed25519PrivateKey.from_private_bytes(seed).sign(nonce.encode())).rstrip(b"=")
hello = {"jwt": me["jwt"], "sig": proof.decode(), "headers": True, "verbose": False, "protocol": 1}
head = b"NATS/1.0\r\nRetake-Answer: _INBOX.me\r\n\r\n"
subject = "%s.worker.%s.error" % (me["prefix"], worker)
bus.sendall(b"CONNECT %s\r\nSUB _INBOX.me 1\r\n" % json.dumps(hello).encode())
bus.sendall(b"HPUB %s _INBOX.me %d %d\r\n" % (subject.encode(), len(head), len(head) + len(report)))
bus.sendall(head + report + b"\r\n")
answers = 0
try:
    while answers < 2 and (line := lines.readline()):
        if line.startswith(b"MSG"):
            print(lines.read(int(line.split()[-1])).decode(), flush=True)
            answers += 1
        elif line.startswith(b"PING"):
            bus.sendall(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            sys.exit(line.decode())
except TimeoutError:  # 30 seconds without an answer
    pass
