// Before the terminal connects: which tab this is, so that a reload shows the session that it had. And the keyboard
// belongs to the terminal from the first key on.
const NAME = "ebbtide-tab";

function tab() {
  let name = sessionStorage.getItem(NAME);
  if (!name) {
    name = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem(NAME, name);
  }
  return name;
}

document.addEventListener("DOMContentLoaded", () => {
  const terminal = document.getElementById("terminal");
  terminal.dataset.sessionWebsocketUrl += "/" + tab();
  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
  new MutationObserver(() => {
    if (document.body.classList.contains("-first-byte")) focus();
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  window.addEventListener("focus", focus);
});

// How many pixels of the device a canvas has. Where a device is emulated the browser tells that of the real screen, and
// the terminal would be drawn too large and cut; without an answer it goes by the scale that the page has.
const believable = ({ devicePixelContentBoxSize: [told], contentRect }) =>
  Math.abs(told.inlineSize - contentRect.width * devicePixelRatio) < 2 &&
  Math.abs(told.blockSize - contentRect.height * devicePixelRatio) < 2;

window.ResizeObserver = class extends ResizeObserver {
  constructor(told) {
    super((entries, observer) => {
      const kept = entries.filter((entry) => !entry.devicePixelContentBoxSize || believable(entry));
      if (kept.length) told(kept, observer);
    });
  }
};
