/* Refreshes the parts of a page that have data-sq-refresh and an id, from the page's own URL.

   The parts are compared with the new ones and changed where they differ. So the focus, selected text, ticked boxes,
   opened <details>, and the scroll position of tables stay as they are. Rows that have an id are matched by it.
   If the new page has other parts, all of its content is compared.
   After a refresh the document gets the event "sq:refreshed". No dependencies, and nothing that a strict
   Content-Security-Policy forbids. */
"use strict";

(() => {
    const STORED = "steady-queue.refresh";
    const LONGEST_SECONDS = 60;
    const TIMEOUT_SECONDS = 20;

    /* -- changing a part in place -------------------------------------------------------------------------------- */

    /* What the user has changed: the page keeps it. */
    const isKept = (element, name) =>
        (name === "open" && element.localName === "details") ||
        (name === "checked" && element.localName === "input") ||
        (name === "selected" && element.localName === "option") ||
        (name === "value" && element.localName === "input" && element.type !== "hidden");

    function updateAttributes(element, next) {
        for (const { name } of [...element.attributes]) {
            if (!next.hasAttribute(name) && !isKept(element, name)) element.removeAttribute(name);
        }
        for (const { name, value } of next.attributes) {
            if (element.getAttribute(name) !== value && !isKept(element, name)) element.setAttribute(name, value);
        }
    }

    const isSame = (node, next) =>
        node.nodeType === next.nodeType && node.nodeName === next.nodeName && (node.id || "") === (next.id || "");

    function updateChildren(parent, nextParent) {
        const wanted = new Set([...nextParent.children].map((child) => child.id).filter(Boolean));
        for (const child of [...parent.children]) {
            if (child.id && !wanted.has(child.id)) child.remove();
        }
        const known = new Map([...parent.children].filter((child) => child.id).map((child) => [child.id, child]));
        let place = parent.firstChild;
        for (const next of [...nextParent.childNodes]) {
            const match = next.id ? known.get(next.id) : place && isSame(place, next) ? place : null;
            if (match && isSame(match, next)) {
                if (match === place) place = place.nextSibling;
                else parent.insertBefore(match, place);
                updateNode(match, next);
            } else {
                parent.insertBefore(document.importNode(next, true), place);
            }
        }
        while (place) {
            const after = place.nextSibling;
            place.remove();
            place = after;
        }
    }

    function updateNode(node, next) {
        if (node.nodeType !== Node.ELEMENT_NODE) {
            if (node.nodeValue !== next.nodeValue) node.nodeValue = next.nodeValue;
        } else if (!node.isEqualNode(next)) {
            updateAttributes(node, next);
            if (node.localName !== "textarea") updateChildren(node, next);
        }
    }

    function updateParts(parts, page) {
        const focused = document.activeElement;
        const ids = (found) => found.map((part) => part.id).join(" ");
        const [whole, nextWhole] = [document, page].map((one) => one.querySelector(".sq-page"));
        if (ids(parts) !== ids(findParts(page)) && whole && nextWhole) {
            // Parts came or went, such as the buttons of a task that has ended.
            updateNode(whole, nextWhole);
        } else {
            for (const part of parts) updateNode(part, page.getElementById(part.id));
        }
        // A row that was moved has lost the focus.
        if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
        document.dispatchEvent(new CustomEvent("sq:refreshed"));
    }

    /* -- when to refresh ----------------------------------------------------------------------------------------- */

    class Refresh {
        constructor(bar) {
            this.bar = bar;
            this.text = bar.querySelector("span");
            this.button = bar.querySelector("button");
            this.seconds = Number(bar.dataset.sqSeconds);
            this.failures = 0;
            this.end = "";
            this.isPaused = readStored() === "paused";
            this.button.addEventListener("click", () => this.toggle());
            document.addEventListener("visibilitychange", () => this.begin(0));
            bar.hidden = false;
            this.begin(this.seconds);
        }

        toggle() {
            this.isPaused = !this.isPaused;
            store(this.isPaused ? "paused" : "");
            this.failures = 0;
            this.begin(0);
        }

        begin(delay) {
            clearTimeout(this.timer);
            if (this.request) this.request.abort();
            this.request = null;
            this.show();
            if (!this.isPaused && !this.end && !document.hidden) this.timer = setTimeout(() => this.load(), delay * 1000);
        }

        show(problem = this.end) {
            const usual = this.isPaused ? "Refresh is paused" : `Refreshes every ${this.seconds} s`;
            const text = problem || usual;
            // The text is read out when it changes: only then is it written.
            if (this.text.textContent !== text) this.text.textContent = text;
            this.button.textContent = this.isPaused ? "Continue" : "Pause";
            this.bar.classList.toggle("sq-error", Boolean(problem));
        }

        async load() {
            const request = new AbortController();
            this.request = request;
            const timeout = setTimeout(() => request.abort("timeout"), TIMEOUT_SECONDS * 1000);
            try {
                const page = await fetchPage(request.signal);
                if (this.request === request) this.finish(page);
            } catch (error) {
                if (this.request === request) this.fail(error);
            } finally {
                clearTimeout(timeout);
            }
        }

        finish(page) {
            this.failures = 0;
            updateParts(findParts(document), page);
            this.begin(this.seconds);
        }

        fail(error) {
            if (error instanceof Gone) {
                this.end = error.message;
                this.button.hidden = true;
                this.begin(0);
                return;
            }
            this.failures += 1;
            const delay = Math.min(this.seconds * 2 ** this.failures, LONGEST_SECONDS);
            const reason = error instanceof Problem ? error.message : "The server does not answer";
            this.begin(delay);
            this.show(`${reason}. Next attempt in ${delay} s`);
        }
    }

    class Problem extends Error {}

    /* What the page shows no longer exists: there is nothing more to read. */
    class Gone extends Error {}

    async function fetchPage(signal) {
        // A redirect is the page to log in.
        const headers = { "X-Steady-Queue-Refresh": "1" };
        const options = { cache: "no-store", credentials: "same-origin", headers, redirect: "manual", signal };
        const response = await fetch(location.href.split("#")[0], options);
        if (response.type === "opaqueredirect") throw new Problem("You are no longer logged in: reload the page");
        if (response.status === 410) throw new Gone(await response.text());
        if (response.status === 503) throw new Problem("The database cannot be read");
        if (!response.ok) throw new Problem(`The server answers with status ${response.status}`);
        return new DOMParser().parseFromString(await response.text(), "text/html");
    }

    const findParts = (page) => [...page.querySelectorAll("[data-sq-refresh][id]")];

    /* The storage can be forbidden: then the choice lasts as long as the page. */
    function readStored() {
        try {
            return localStorage.getItem(STORED);
        } catch {
            return null;
        }
    }

    function store(value) {
        try {
            localStorage.setItem(STORED, value);
        } catch {
            return;
        }
    }

    const bar = document.querySelector(".sq-refresh");
    if (bar && findParts(document).length) new Refresh(bar);
})();

/* Forms: select all rows of a list, send a form only once, and send the next request of an action that has several. */
(() => {
    function showBoxes() {
        for (const box of document.querySelectorAll("[data-sq-select-all]")) box.hidden = false;
    }
    document.addEventListener("sq:refreshed", showBoxes);
    showBoxes();
    document.addEventListener("change", ({ target }) => {
        if (!target.matches("[data-sq-select-all]")) return;
        for (const box of target.form.querySelectorAll('input[name="ids"]')) box.checked = target.checked;
    });

    // On the document and without attributes: a refresh adds forms, and removes attributes that the server did not set.
    let sent = new WeakSet();
    document.addEventListener("submit", (event) => {
        const form = event.target;
        if (event.defaultPrevented || !form.matches("form[data-sq-once]")) return;
        if (sent.has(form)) event.preventDefault();
        sent.add(form);
    });
    // A page that the browser shows again, after "back", can be sent again.
    addEventListener("pageshow", (event) => {
        if (event.persisted) sent = new WeakSet();
    });

    for (const form of document.querySelectorAll("form[data-sq-submit]")) form.requestSubmit();
})();
