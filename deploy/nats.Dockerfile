# A NATS server built from go.mod, for machines that cannot pull nats:2. It accepts the same arguments.
FROM scratch
COPY nats-server /nats-server
ENTRYPOINT ["/nats-server"]
