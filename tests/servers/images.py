"""``make images``: the images that the compose files and ``make test-containers`` use.

The official ones are pulled by name.  Where no registry can be reached, a base is made with
debootstrap, and Kafka and Cassandra are put on it from the jars that tests/servers fetches.
It never gives a local image an official name; docker/.env tells the compose files which to use.
"""

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.servers.cassandra import (
    CASSANDRA_VERSION,
    JAVA_OPTIONS,
    cassandra_configuration,
    cassandra_jars,
)
from tests.servers.engine import (
    EngineFailed,
    can_pull,
    checked,
    docker,
    has_image,
    require_engine,
    size_bytes,
)
from tests.servers.kafka import KAFKA_VERSION, kafka_jars
from tests.servers.maven import REPOSITORY, FetchFailed, ToolMissing

DOCKER_FOLDER = REPOSITORY / "docker"
ENV_FILE = DOCKER_FOLDER / ".env"
SUITE = "bookworm"
BASE_IMAGE = f"debian:{SUITE}-slim"
NODE_IMAGE = "hourhand:latest"
KAFKA_IMAGE = f"apache/kafka:{KAFKA_VERSION}"
CASSANDRA_IMAGE = f"cassandra:{CASSANDRA_VERSION}"
_LOCAL_KAFKA = f"hourhand-kafka:{KAFKA_VERSION}"
_LOCAL_CASSANDRA = f"hourhand-cassandra:{CASSANDRA_VERSION}"
_OWN_CERTIFICATES = Path("/usr/local/share/ca-certificates")
_TOKENS = ("ADMIN_TOKEN", "TIMERS_TOKEN")
_BUILD_TIMEOUT_S = 1800
# Nothing in a container reads these, and they are a third of what debootstrap lays out.
_NOT_NEEDED = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
)


def chosen_images() -> dict[str, str]:
    """Return the images by the compose files' variable: docker/.env's, else the official ones."""
    return {
        "NODE_IMAGE": NODE_IMAGE,
        "KAFKA_IMAGE": KAFKA_IMAGE,
        "CASSANDRA_IMAGE": CASSANDRA_IMAGE,
        **_written(),
    }


def make_images() -> Mapping[str, str]:
    """Make or fetch all images, write docker/.env, and return the images by their variable."""
    require_engine()
    base = _base_image()
    _say(f"Building {NODE_IMAGE} on {base} …")
    _build(NODE_IMAGE, base, REPOSITORY, DOCKER_FOLDER / "node" / "Dockerfile")
    images = {
        "BASE_IMAGE": base,
        "NODE_IMAGE": NODE_IMAGE,
        "KAFKA_IMAGE": _server_image(KAFKA_IMAGE, _LOCAL_KAFKA, base, _lay_out_kafka),
        "CASSANDRA_IMAGE": _server_image(
            CASSANDRA_IMAGE, _LOCAL_CASSANDRA, base, _lay_out_cassandra
        ),
    }
    before = _written()
    tokens = {name: before.get(name) or secrets.token_hex(16) for name in _TOKENS}
    # Only the owner may read it: the tokens let one act on the cluster.
    ENV_FILE.touch(mode=0o600)
    ENV_FILE.write_text(
        "# Written by `make images`; the tokens stay as they are, or as you set them.\n"
        + "".join(f"{name}={value}\n" for name, value in {**before, **images, **tokens}.items())
    )
    return images


def _base_image() -> str:
    """Return the image to build on: the official one, else one made here, once."""
    wanted = os.environ.get("BASE_IMAGE") or BASE_IMAGE
    if has_image(wanted) or can_pull(wanted):
        return wanted
    if "BASE_IMAGE" in os.environ:
        raise EngineFailed(f"BASE_IMAGE names {wanted}, which is neither here nor to be pulled")
    # Where the network has a certificate authority of its own, pip in a container must know it.
    certificates = sorted(_OWN_CERTIFICATES.rglob("*.crt"))
    known = hashlib.sha256(b"".join(path.read_bytes() for path in certificates))
    local = f"hourhand-base:{SUITE}-{known.hexdigest()[:8]}"
    if not has_image(local):
        _say(f"{wanted} cannot be pulled: making {local} with debootstrap …")
        _make_base(local, certificates)
    return local


def _make_base(name: str, certificates: Sequence[Path]) -> None:
    debootstrap = shutil.which("debootstrap", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if debootstrap is None:
        raise ToolMissing(
            f"no registry answers, so {BASE_IMAGE} must be made here, and debootstrap is not"
            " installed: apt-get install debootstrap"
        )
    if os.geteuid() != 0:
        raise ToolMissing(
            f"no registry answers, so {BASE_IMAGE} must be made here, and debootstrap needs root:"
            " run `make images` once as root"
        )
    with tempfile.TemporaryDirectory(prefix="hourhand-base-") as folder:
        root, archive = Path(folder, "root"), Path(folder, "root.tar")
        checked(debootstrap, "--variant=minbase", SUITE, str(root), timeout_s=_BUILD_TIMEOUT_S)
        for unread in _NOT_NEEDED:
            shutil.rmtree(root / unread, ignore_errors=True)
            (root / unread).mkdir(parents=True)
        # Packages expect the folder of apt's lists to have one for what is half fetched.
        (root / "var/lib/apt/lists/partial").mkdir()
        (root / _OWN_CERTIFICATES.relative_to("/")).mkdir(parents=True, exist_ok=True)
        for path in certificates:
            shutil.copy(path, root / _OWN_CERTIFICATES.relative_to("/"))
        checked(
            "tar",
            "--sort=name",
            "--numeric-owner",
            "--one-file-system",
            "-C",
            str(root),
            "-cf",
            str(archive),
            ".",
            timeout_s=_BUILD_TIMEOUT_S,
        )
        docker("import", "--change", 'CMD ["/bin/bash"]', str(archive), name)


def _server_image(official: str, local: str, base: str, lay_out: Callable[[Path], None]) -> str:
    if has_image(official) or can_pull(official):
        return official
    _say(f"{official} cannot be pulled: building {local} from the jars that the tests use …")
    with tempfile.TemporaryDirectory(prefix="hourhand-image-") as folder:
        lay_out(Path(folder))
        _build(local, base, Path(folder), Path(folder) / "Dockerfile")
    return local


def _lay_out_kafka(folder: Path) -> None:
    shutil.copytree(DOCKER_FOLDER / "kafka", folder, dirs_exist_ok=True)
    _copy_jars(kafka_jars(), folder)


def _lay_out_cassandra(folder: Path) -> None:
    shutil.copytree(DOCKER_FOLDER / "cassandra", folder, dirs_exist_ok=True)
    _copy_jars(cassandra_jars(), folder)
    (folder / "java.options").write_text("\n".join(JAVA_OPTIONS) + "\n")
    template = {
        **cassandra_configuration(Path("/var/lib/cassandra"), "@seeds@"),
        "cluster_name": "@cluster@",
        "num_tokens": "@tokens@",
        "endpoint_snitch": "@snitch@",
        "listen_address": "@address@",
        "broadcast_address": "@address@",
        "rpc_address": "0.0.0.0",  # noqa: S104 - of a container
        "broadcast_rpc_address": "@told@",
        "storage_port": 7000,
        "native_transport_port": 9042,
    }
    # JSON is YAML; `run` puts values in the marks' place.
    (folder / "cassandra.template.yaml").write_text(json.dumps(template, indent=1))


def _copy_jars(jars: Path, folder: Path) -> None:
    (folder / "libs").mkdir()
    for jar in jars.glob("*.jar"):
        shutil.copy(jar, folder / "libs")


def _build(name: str, base: str, context: Path, dockerfile: Path) -> None:
    # The host's network reaches whatever package index this machine reaches.
    docker(
        "build",
        "--network",
        "host",
        "--build-arg",
        f"BASE_IMAGE={base}",
        "--file",
        str(dockerfile),
        "--tag",
        name,
        str(context),
        timeout_s=_BUILD_TIMEOUT_S,
    )


def _written() -> dict[str, str]:
    if not ENV_FILE.is_file():
        return {}
    lines = (line.strip() for line in ENV_FILE.read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Make all and print what there is; 2 where a tool is missing, 1 where something failed."""
    try:
        images = make_images()
    except ToolMissing as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (EngineFailed, FetchFailed, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for name in images.values():
        _say(f"{name:32} {size_bytes(name) / 1e6:6.0f} MB")
    _say(f"{ENV_FILE.relative_to(REPOSITORY)} names them for the compose files.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
