// The way in where the gateway wants a token.
import { element, setHidden, setText } from "./element.js";

export class SignIn {
  constructor(done) {
    const field = element("input", { type: "password", id: "token", autocomplete: "current-password", required: true, spellcheck: false });
    this.problem = element("p", { class: "problem", role: "alert", hidden: true });
    const form = element("form", { class: "signin" }, element("h1", {}, "Sign in"), element("label", { for: "token" }, "Token"), field, element("button", { type: "submit", class: "button main" }, "Sign in"), this.problem);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#try(field, done);
    });
    this.field = field;
    this.node = form;
  }

  async #try(field, done) {
    setHidden(this.problem, true);
    const answer = await fetch("api/login", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token: field.value }) }).catch(() => null);
    if (answer?.ok) return done();
    setText(this.problem, answer === null ? "The gateway does not answer." : answer.status === 401 ? "This token is not known here." : `The gateway refused: ${answer.status}.`);
    setHidden(this.problem, false);
  }
}
