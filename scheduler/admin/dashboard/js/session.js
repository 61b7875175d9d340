/**
 * Who looks: the bearer token, and what it may do.
 *
 * The token lives in this tab's session storage and travels in a header that only this page's
 * scripts can set.  There is no cookie, so no other site's page can act in its name.
 */

import { h } from "./dom.js";

const TOKEN_KEY = "hourhand-token";

let asking = null;
/** What the API says of the token: `{who, mayAct, showsData, partitionCount, version}`. */
export let whoami = { who: "", mayAct: false, showsData: true, partitionCount: 0, version: "" };

/** Keep what the API says of the token. */
export function setWhoami(value) {
  whoami = value;
}

/** The headers that say who asks. */
export function authorization() {
  const token = sessionStorage.getItem(TOKEN_KEY);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

/** Forget the token and begin anew. */
export function signOut() {
  sessionStorage.removeItem(TOKEN_KEY);
  location.reload();
}

/** Whether a token is kept, so that there is something to forget. */
export function hasToken() {
  return sessionStorage.getItem(TOKEN_KEY) !== null;
}

/** Ask for a token, once however many requests were refused; resolves when there is one. */
export function signIn() {
  asking ??= new Promise((resolve) => {
    const wasRefused = hasToken();
    const input = h("input", {
      class: "field",
      type: "password",
      autocomplete: "off",
      required: true,
      name: "token",
      spellcheck: "false",
    });
    const dialog = h(
      "dialog",
      { "aria-labelledby": "sign-in", on: { cancel: (event) => event.preventDefault() } },
      h(
        "form",
        {
          on: {
            submit: (event) => {
              event.preventDefault();
              take(input.value.trim());
            },
          },
        },
        h("h2", { id: "sign-in" }, "Sign in"),
        wasRefused && h("p", { class: "problem", role: "alert" }, "This token is not valid here."),
        h(
          "p",
          { class: "soft" },
          "Enter a token from admin.read_tokens or admin.write_tokens. It is kept in this tab until you close it.",
        ),
        h("label", { class: "labelled" }, "Token", input),
        h("div", { class: "buttons" }, h("button", { class: "button main" }, "Sign in")),
      ),
    );
    const take = (token) => {
      if (!token) return;
      sessionStorage.setItem(TOKEN_KEY, token);
      dialog.close();
      dialog.remove();
      asking = null;
      resolve();
    };
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
  return asking;
}
