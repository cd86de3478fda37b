"""A headless Chromium, told what to do by the DevTools protocol: for tests of the built site.

Tornado, which Jupyter brings, speaks websockets; nothing else is needed.
"""

import asyncio
import base64
import contextlib
import json
import shutil
import subprocess
import time
from urllib.request import urlopen

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 30.0  # seconds, for anything


def chromium():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. What it asked the network for and what its console said is kept by page."""

    def __init__(self, folder):
        self.folder, self.requests, self.complaints, self.number = folder, [], [], 0
        self.loop = asyncio.new_event_loop()

    def __enter__(self):
        self.process = subprocess.Popen(
            [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-port=0", f"--user-data-dir={self.folder}", "--no-first-run",
             "--disable-background-networking", "--disable-component-update",
             "--remote-allow-origins=*", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = self.wait_for_port()
            with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(t for t in json.load(answer) if t["type"] == "page")
            self.socket = self.wait_for(self.connect(tab["webSocketDebuggerUrl"]))
            for domain in ("Page", "Network", "Runtime", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        self.process.kill()
        self.loop.close()

    def wait_for_port(self):
        """Chromium writes into its folder where it listens."""
        for _ in range(int(PATIENCE / 0.1)):
            with contextlib.suppress(OSError, IndexError):
                return (self.folder / "DevToolsActivePort").read_text().split()[0]
            time.sleep(0.1)
        raise TimeoutError(f"Chromium did not start in {PATIENCE:.0f} s")

    def take(self):
        """The next message, after events were noted."""
        message = json.loads(self.wait_for(self.read()))
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.loadingFailed" and not params.get("canceled"):
            self.complaints.append(f"not loaded: {params['errorText']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return message

    def wait_for(self, coroutine):
        """What it gives, before patience ends."""
        return self.loop.run_until_complete(asyncio.wait_for(coroutine, PATIENCE))

    async def connect(self, url):
        from tornado.websocket import websocket_connect

        return await websocket_connect(url, max_message_size=2**28)

    async def read(self):
        return await self.socket.read_message()

    def call(self, method, **params):
        """What a command of the protocol answers."""
        self.number += 1
        self.wait_for(self.send({"id": self.number, "method": method, "params": params}))
        while True:
            message = self.take()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    async def send(self, message):
        await self.socket.write_message(json.dumps(message))

    def say(self, expression):
        """The value of an expression of Javascript on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression):
        """Wait until an expression is true."""
        for _ in range(int(PATIENCE / 0.1)):
            if self.say(expression):
                return
            time.sleep(0.1)
        raise TimeoutError(f"{expression} did not become true in {PATIENCE:.0f} s")

    def open(self, url, width=1400, dark=False):
        """Go to a page, and wait until all of it is there."""
        self.requests.clear()
        self.complaints.clear()
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1,
            mobile=False,
        )  # fmt: skip
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=url)
        self.until(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    def picture(self, path, whole=False):
        """Write what is seen, or all of the page, as PNG."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
