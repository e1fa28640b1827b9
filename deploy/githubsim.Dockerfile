# The fake GitHub, with the demo's repository. The base needs git.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY githubsim /usr/local/bin/
COPY seed /seed
ENTRYPOINT ["/usr/local/bin/githubsim"]
