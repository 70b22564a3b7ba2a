"use strict";
// A transcript grows as messages come. Nothing is made of strings: text goes into textContent alone.
const list = document.getElementById("transcript");

function made(tag, text, name) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (name) e.className = name;
  return e;
}

function link(path, parameters, text) {
  const a = made("a", text);
  a.href = path + "?" + new URLSearchParams(parameters);
  return a;
}

// plain shows marks that change how other text is shown, and controls, as what they are.
function plain(s) {
  return (s || "").replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, c => c === "\n" || c === "\t" ? c : "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
}

function message(m, thread) {
  const li = made("li", undefined, m.kind);
  li.append(made("span", m.n + " " + m.kind + (m.result ? " " + plain(m.result) : ""), "who"));
  if (m.text) li.append(made("pre", plain(m.text)));
  for (const c of m.calls || []) {
    const p = made("p", undefined, "call");
    p.append(link("call", { thread: thread, id: c.id }, plain(c.operation)), " ", made("code", plain(c.arguments)));
    li.append(p);
  }
  return li;
}

function hidden(name, value) {
  const i = made("input");
  i.type = "hidden";
  i.name = name;
  i.value = value;
  return i;
}

function prompt(p, answers) {
  const box = made("article", undefined, "prompt"), text = made("p"), who = made("strong", plain(p.operation) || "A tool");
  text.append(who, " of " + (plain(p.toolset) || "a tool server") + (p.auth_url ? " asks the user to authorize it at " : " asks: "));
  if (p.auth_url) {
    text.append(made("strong", plain(p.host)), ": ");
    if (/^https?:\/\//.test(p.auth_url)) {
      const a = made("a", plain(p.auth_url));
      a.href = p.auth_url;
      a.rel = "noreferrer noopener";
      text.append(a);
    } else text.append(plain(p.auth_url));
  } else text.append(plain(p.prompt));
  box.append(text);
  if (p.form) {
    const link = made("a", "fill in the form");
    link.href = "prompts";
    box.append(link);
  } else if (p.choices) {
    const form = made("form"), set = made("fieldset");
    form.method = "post";
    form.action = "answers";
    set.append(made("legend", "choices"));
    p.choices.forEach((c, i) => {
      const label = made("label"), radio = made("input");
      radio.type = "radio";
      radio.name = "selected";
      radio.value = i;
      radio.checked = i === (p.default || 0);
      label.append(radio, " " + plain(c));
      set.append(label, " ");
    });
    form.append(hidden("thread", p.thread), hidden("id", p.id), hidden("since", p.since), set);
    if (answers) form.append(made("button", "answer"));
    box.append(form);
  }
  return box;
}

if (list) {
  const thread = list.dataset.thread, said = document.getElementById("stream");
  const source = new EventSource("events?" + new URLSearchParams({ thread: thread, from: list.dataset.from }));
  let next = +list.dataset.from;
  source.onopen = () => { said.textContent = "live"; };
  source.onerror = () => { said.textContent = "no answer"; };
  source.addEventListener("message", e => {
    const m = JSON.parse(e.data);
    if (m.n < next) return;
    next = m.n + 1;
    list.append(message(m, thread));
  });
  source.addEventListener("standing", e => {
    const now = JSON.parse(e.data);
    document.getElementById("state").textContent = now.state;
    document.getElementById("pending").textContent = now.pending;
    const box = document.getElementById("prompts");
    if (!box.contains(document.activeElement)) box.replaceChildren(...now.prompts.map(p => prompt(p, list.dataset.answers === "true")));
  });
  source.addEventListener("end", () => {
    source.close();
    said.textContent = "ended";
  });
}
