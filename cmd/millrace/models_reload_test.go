package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReloadOfModels reloads configurations that add, change, remove and restore models, also during a turn. Conversations
// continue with their model. If it was removed, they use the first one and say so, until the model is configured again.
func TestReloadOfModels(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, tools := startTools(t, "feed")
	services, at := map[string]*streamed{}, map[string]string{}
	for _, name := range []string{"big", "small", "extra"} {
		services[name] = &streamed{make(chan *answering)}
		web := httptest.NewServer(services[name])
		t.Cleanup(web.Close)
		t.Cleanup(web.CloseClientConnections)
		at[name] = web.URL
	}
	dir := t.TempDir()
	api, listen, file := freeAddress(t), freeAddress(t), filepath.Join(dir, "c.json")
	s := &served{t: t, state: filepath.Join(dir, "state"), api: "http://" + api, args: []string{"serve", "--config", file}}
	// configure writes a configuration with models, each given as its name and the name its service uses.
	configure := func(models ...string) {
		var all []string
		for _, m := range models {
			name, of, _ := strings.Cut(m, "=")
			all = append(all, fmt.Sprintf(`{"name": %q, "openai": %q, "model": %q}`, name, at[name], of))
		}
		writeConfig(t, file, fmt.Sprintf(`{"state": %q, "api": {"listen": %q}, "callbacks": {"listen": %q}, "tools": [{"url": %q}], "models": [%s]}`, s.state, api, listen, tools[0], strings.Join(all, ", ")))
	}
	configure("big=m1", "small=m2")
	s.cmd = millrace(t, s.args...)
	said := newWords()
	s.cmd.Stderr = said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	reload := func(models ...string) {
		t.Helper()
		configure(models...)
		said.until(ctx, t, "calls at http://", func() { s.cmd.Process.Signal(syscall.SIGHUP) })
	}
	say := func(thread, text string) {
		t.Helper()
		s.request(ctx, "POST", "/threads/"+thread+"/messages", fmt.Sprintf(`{"text": %q, "key": %q}`, text, text), http.StatusAccepted)
	}
	// answered makes a service answer a thread, and checks the request and the history.
	answered := func(service, model, thread, text string, messages int, note string, knows ...string) {
		t.Helper()
		a := services[service].next(ctx, t)
		for _, want := range append(knows, fmt.Sprintf(`"model":%q`, model)) {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s is asked without %s: %s", service, want, a.body)
			}
		}
		a.reply(text)
		all := s.wait(ctx, thread, "assistant", messages-1)
		last := all[len(all)-1]
		if len(all) != messages || last.Text != text || last.Model != service || strings.Contains(strings.Join(last.Notes, " "), "no longer configured") != (note != "") || !strings.Contains(strings.Join(last.Notes, " "), note) {
			t.Errorf("%s has %d messages, the last one is %+v", thread, len(all), last)
		}
	}
	s.request(ctx, "POST", "/sessions", `{"id": "none"}`, http.StatusCreated)
	s.request(ctx, "POST", "/sessions", `{"id": "small", "model": "small"}`, http.StatusCreated)
	s.request(ctx, "POST", "/sessions", `{"id": "extra", "model": "extra"}`, http.StatusBadRequest)
	say("none", "n1")
	answered("big", "m1", "none", "N1.", 3, "")
	say("small", "s1")
	answered("small", "m2", "small", "S1.", 3, "")

	// Models are added and changed during a turn, which continues with the same model.
	say("small", "s2")
	services["small"].next(ctx, t).write(`{"content":"S"}`)
	reload("big=m1b", "small=m2b", "extra=m3")
	answered("small", "m2b", "small", "S2.", 5, "", "s1", "S1.", "s2")
	say("small", "s2") // a repetition
	s.request(ctx, "POST", "/sessions", `{"id": "extra", "model": "extra"}`, http.StatusCreated)
	say("extra", "e1")
	answered("extra", "m3", "extra", "E1.", 3, "")
	say("none", "n2")
	answered("big", "m1b", "none", "N2.", 5, "", "n1", "N1.")

	// Models are removed, also during a turn, which continues with the first model.
	say("small", "s3")
	services["small"].next(ctx, t).write(`{"content":"S"}`)
	reload("extra=m3", "big=m1b")
	answered("extra", "m3", "small", "S3.", 7, `The model "small" is no longer configured.`, "s1", "S2.", "s3")
	s.request(ctx, "POST", "/sessions", `{"id": "late", "model": "small"}`, http.StatusBadRequest)
	say("none", "n3") // it names no model, and the first one is now another
	answered("extra", "m3", "none", "N3.", 7, "", "n1", "N2.")

	// A configuration with an unknown fallback is invalid and changes nothing.
	writeConfig(t, file, strings.ReplaceAll(fmt.Sprintf(`{"state": %q, "tools": [{"url": %q}], "models": [{"name": "extra", "openai": %q, "model": "x", "fallback": ["small"]}]}`, s.state, tools[0], at["extra"]), "\n", ""))
	said.until(ctx, t, "nothing is changed", func() { s.cmd.Process.Signal(syscall.SIGHUP) })
	say("extra", "e2")
	answered("extra", "m3", "extra", "E2.", 5, "", "e1", "E1.")

	// The model is configured again, and the session uses its choice again.
	reload("big=m1b", "small=m2", "extra=m3")
	say("small", "s4")
	answered("small", "m2", "small", "S4.", 9, "", "s3", "S3.")
	_, text := s.request(ctx, "GET", "/sessions", "", http.StatusOK)
	for _, want := range []string{`"id":"none"`, `"id":"small"`, `"id":"extra"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the sessions are %s", text)
		}
	}
	if bytes.Contains(text, []byte(`"id":"late"`)) {
		t.Errorf("the sessions are %s", text)
	}
}
