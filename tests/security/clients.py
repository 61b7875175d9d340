"""How a client proves itself, as the settings that Kafka and Cassandra share."""

from tests.security.authority import CLIENT, SECRET, Authority


def trusting(authority: Authority, **more: object) -> dict[str, object]:
    """Return the settings ``tls`` that trust this authority."""
    return {"enabled": True, "ca_file": authority.ca_file, **more}


def with_certificate(authority: Authority) -> dict[str, object]:
    """Return the settings ``tls`` with the client's own certificate, too."""
    return trusting(
        authority,
        certificate_file=authority.certificate_file,
        key_file=authority.key_file,
        key_password=SECRET,
    )


def login(authority: Authority, **instead: object) -> dict[str, object]:
    """Return what logs in over TLS, with what is given instead of what is right."""
    return {"tls": trusting(authority), "username": CLIENT, "password": SECRET, **instead}
