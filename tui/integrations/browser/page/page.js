// Before the terminal connects, add the id of this tab to its URL, so that a reload shows the same session. The terminal
// gets the focus at once, so that no key is lost.
const STORAGE_KEY = "ebbtide-tab";

function tabId() {
  let id = sessionStorage.getItem(STORAGE_KEY);
  if (!id) {
    id = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem(STORAGE_KEY, id);
  }
  return id;
}

document.addEventListener("DOMContentLoaded", () => {
  const terminal = document.getElementById("terminal");
  terminal.dataset.sessionWebsocketUrl += "/" + tabId();
  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
  new MutationObserver(() => {
    if (document.body.classList.contains("-first-byte")) focus();
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  window.addEventListener("focus", focus);
});

// Drop wrong sizes of the canvas in device pixels. When a device is emulated, the browser reports those of the real
// screen, and the terminal would be drawn too large and cut off. Without a size, it uses the scale of the page.
const isPlausible = ({ devicePixelContentBoxSize: [reported], contentRect }) =>
  Math.abs(reported.inlineSize - contentRect.width * devicePixelRatio) < 2 &&
  Math.abs(reported.blockSize - contentRect.height * devicePixelRatio) < 2;

window.ResizeObserver = class extends ResizeObserver {
  constructor(callback) {
    super((entries, observer) => {
      const plausible = entries.filter((entry) => !entry.devicePixelContentBoxSize || isPlausible(entry));
      if (plausible.length) callback(plausible, observer);
    });
  }
};
