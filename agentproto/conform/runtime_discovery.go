package conform

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Cases D: which of the tools that tool servers describe a runtime offers (doc/protocol.md §3).

// open opens a session, without any requirement on it.
func (t *runtimeTrial) open(id string) Session {
	s, err := t.p.Open(t.ctx, SessionRequest{ID: id, Images: true})
	t.must(err)
	return s
}

// offers requires a session to offer exactly these tools.
func (t *runtimeTrial) offers(s Session, tools ...string) {
	got := slices.DeleteFunc(slices.Clone(s.Tools), builtIn)
	slices.Sort(got)
	slices.Sort(tools)
	t.want(slices.Equal(got, tools), "the session offers %q, not %q; problems %+v", got, tools, s.Problems)
}

// builtIn reports whether a tool is the runtime's own.
func builtIn(name string) bool {
	return name == "cancel_subscription" || strings.HasPrefix(name, "sleep")
}

// reports requires a session to report a problem with a server.
func (t *runtimeTrial) reports(s Session, server *scriptedTool) {
	t.want(slices.ContainsFunc(s.Problems, func(p ToolsetProblem) bool { return p.Toolset == server.base && p.Error != "" }),
		"nothing is reported about the tool server %q: %+v", server.name, s.Problems)
}

func failing(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// schemaTool returns a tool with an input schema.
func schemaTool(name string, schema any) map[string]any {
	return map[string]any{"name": name, "description": "Has a schema.", "inputSchema": schema}
}

func requiring(member string) map[string]any {
	return fields{"type": "object", "required": []string{member}}
}

func caseD04(t *runtimeTrial) {
	s := t.server("tools")
	s.set(func(s *scriptedTool) { s.onGet = failing(500) })
	t.start()
	first := t.open("s1")
	t.offers(first)
	t.reports(first, s)
	s.set(func(s *scriptedTool) { s.onGet = nil })
	t.offers(t.open("s2"), "echo")
}

func caseD05(t *runtimeTrial) {
	a := t.server("a", echoTool("same"), echoTool("only_a"))
	b := t.server("b", echoTool("same"), echoTool("only_b"))
	t.start()
	s := t.open("s")
	t.offers(s, "only_a", "only_b")
	t.want(slices.ContainsFunc(s.Problems, func(p ToolsetProblem) bool { return p.Tool == "same" || strings.Contains(p.Error, "same") }),
		"nothing is reported about the tool that two servers have: %+v", s.Problems)
	h := &trialThread{t, "s"}
	h.say(callOf("c", "same", fields{}))
	h.failed("c")
	t.want(len(a.invocations("c"))+len(b.invocations("c")) == 0, "a tool that is not offered was invoked")
	h.say(callOf("d", "only_b", fields{}))
	b.finish(b.await("d"), "other tools work")
	h.resolved("d", "other tools work")
}

func caseD06(t *runtimeTrial) {
	tools := func(bad map[string]any, prefix string) []map[string]any {
		all := []map[string]any{bad}
		for i := range 4 {
			all = append(all, echoTool(fmt.Sprint(prefix, i)))
		}
		return all
	}
	t.server("good")
	bad := []*scriptedTool{
		t.server("no schema", tools(fields{"name": "x1", "description": "d"}, "a")...),
		t.server("string", tools(schemaTool("x2", "object"), "b")...),
		t.server("no description", tools(fields{"name": "x3", "inputSchema": fields{"type": "object"}}, "c")...),
		t.server("impossible type", tools(schemaTool("x4", fields{"type": "objekt"}), "d")...),
		t.server("twice", echoTool("x5"), echoTool("x5")),
	}
	t.start()
	s := t.open("s")
	t.offers(s, "echo")
	for _, b := range bad {
		t.reports(s, b)
	}
}

func caseD07(t *runtimeTrial) {
	t.server("good")
	bad := []*scriptedTool{
		t.server("no tools", []map[string]any{}...), t.server("empty name", echoTool("")),
		t.server("long name", echoTool(strings.Repeat("n", 129))), t.server("relative"), t.server("nameless"), t.server("long set name"),
	}
	bad[0].tools = []map[string]any{}
	bad[3].extra = fields{"endpoint": "/invoke"}
	bad[4].extra = fields{"name": ""}
	bad[5].extra = fields{"name": strings.Repeat("n", 129)}
	t.start()
	s := t.open("s")
	t.offers(s, "echo")
	for _, b := range bad {
		t.reports(s, b)
	}
}

func caseD08(t *runtimeTrial) {
	s := t.server("tools", schemaTool("echo", requiring("a")))
	t.start()
	first := t.session("s1")
	s.set(func(s *scriptedTool) { s.tools = []map[string]any{schemaTool("echo", requiring("b"))} })
	second := t.session("s2")
	first.say(callOf("c1", "echo", fields{"a": 1}))
	s.finish(s.await("c1"), "old")
	first.resolved("c1", "old")
	second.say(callOf("c2", "echo", fields{"a": 1}))
	second.failed("c2")
	t.want(len(s.invocations("c2")) == 0, "the new session uses the old schema")
	second.say(callOf("c3", "echo", fields{"b": 1}))
	s.finish(s.await("c3"), "new")
	second.resolved("c3", "new")
}

func caseD09(t *runtimeTrial) {
	s, h := t.one()
	s.set(func(s *scriptedTool) { s.onGet = failing(503) })
	t.offers(t.open("s"), "echo")
	s.finish(s.begin(h, "c"), "still there")
	h.resolved("c", "still there")
}

func caseD10(t *runtimeTrial) {
	t.config.TimeoutsMS.Discovery = 500
	t.server("good")
	bad := []*scriptedTool{t.server("large"), t.server("drip"), t.server("redirect"), t.server("bomb")}
	hole := t.sink()
	bad[0].extra = fields{"description": strings.Repeat("x", 5<<20)}
	bad[1].onGet = func(w http.ResponseWriter, r *http.Request) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 1000 { // 20 s
			if _, err := w.Write([]byte(" ")); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
	bad[2].onGet = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+hole.address+"/.well-known/rap-toolset", http.StatusTemporaryRedirect)
	}
	bad[3].onGet = bomb()
	t.start()
	begun := time.Now()
	s := t.open("s")
	t.want(time.Since(begun) < 5*time.Second, "discovery took %v although its limit is 500 ms", time.Since(begun))
	t.offers(s, "echo")
	for _, b := range bad {
		t.reports(s, b)
	}
	hole.untouched(t)
}

// bomb serves a manifest of 200 MB that is compressed to 200 kB.
func bomb() http.HandlerFunc {
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	z.Write([]byte(`{"name":"bomb","description":"`)) // a buffer accepts everything
	for range 200 {
		z.Write(bytes.Repeat([]byte("x"), 1<<20))
	}
	z.Write([]byte(`"}`))
	z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(small.Bytes())
	}
}

func caseD11(t *runtimeTrial) {
	hole := t.sink()
	deep := fields{"type": "object", "$ref": "#/$defs/d0"}
	defs := fields{"d20": fields{"type": "object"}}
	for i := range 20 {
		next := fields{"$ref": fmt.Sprintf("#/$defs/d%d", i+1)}
		defs[fmt.Sprintf("d%d", i)] = fields{"allOf": []any{next, next}}
	}
	deep["$defs"] = defs
	schemas := []any{
		fields{"type": "object", "$ref": "#"},
		fields{"type": "object", "$ref": "#/$defs/a", "$defs": fields{"a": fields{"$ref": "#/$defs/b"}, "b": fields{"$ref": "#/$defs/a"}}},
		fields{"type": "object", "$ref": "file:///etc/passwd"},
		fields{"type": "object", "$ref": "http://" + hole.address + "/schema"},
		fields{"type": "object", "$schema": "http://" + hole.address + "/dialect"},
		deep,
		fields{"type": "object", "properties": fields{"s": fields{"type": "string", "pattern": "^(a+)+$"}}},
	}
	t.server("good")
	for i, schema := range schemas {
		t.server(fmt.Sprintf("hostile%d", i), schemaTool(fmt.Sprintf("hostile%d", i), schema))
	}
	t.start()
	begun := time.Now()
	s := t.open("s")
	t.want(time.Since(begun) < 3*time.Second, "reading hostile schemas took %v", time.Since(begun))
	t.want(slices.Contains(s.Tools, "echo"), "a good tool is not offered: %+v", s)
	h := &trialThread{t, "s"}
	for i := range schemas {
		name := fmt.Sprintf("hostile%d", i)
		if !slices.Contains(s.Tools, name) {
			t.reports(s, t.servers[i+1])
			continue
		}
		begun := time.Now()
		h.say(callOf(name, name, fields{"s": strings.Repeat("a", 40) + "!"}))
		server := t.servers[i+1]
		t.until("a call of a tool with a hostile schema ends or is sent", func() bool {
			return len(server.invocations(name)) > 0 || len(h.see().results(name)) > 0
		})
		t.want(time.Since(begun) < 2*time.Second, "validating against schema %d took %v", i, time.Since(begun))
		if sent := server.invocations(name); len(sent) > 0 {
			server.finish(sent[0], "done")
		}
		h.result(name)
	}
	hole.untouched(t)
}

func caseD12(t *runtimeTrial) {
	const draft = "http://json-schema.org/draft-07/schema#"
	s := t.server("tools", schemaTool("echo", fields{
		"$schema": draft, "type": "object",
		"properties":   fields{"p": fields{"type": "array", "items": []any{fields{"type": "integer"}, fields{"type": "string"}}}},
		"dependencies": fields{"a": []string{"b"}},
	}))
	t.start()
	h := t.session("s")
	h.say(callOf("good", "echo", fields{"p": []any{1, "x"}, "a": 1, "b": 2}))
	s.finish(s.await("good"), "sent")
	h.resolved("good", "sent")
	for id, args := range map[string]any{"tuple": fields{"p": []any{"x", 1}}, "dependency": fields{"a": 1}} {
		h.say(callOf(id, "echo", args))
		h.failed(id)
		t.want(len(s.invocations(id)) == 0, "arguments that do not fit a draft-07 schema were sent: %v", args)
	}
}

func caseD13(t *runtimeTrial) {
	s, other := t.server("tools"), t.server("elsewhere")
	s.extra = fields{"endpoint": other.base + "/invoke"}
	t.config.Toolsets = []ToolsetConfig{{ID: "tools", URL: s.base}}
	t.start()
	refused := t.open("s1")
	t.offers(refused)
	t.reports(refused, s)
	t.p.kill()
	t.config.AllowOrigins = []string{other.base}
	t.start()
	h := t.session("s2")
	h.say(call("c"))
	other.finish(other.await("c"), "allowed")
	h.resolved("c", "allowed")
}

func caseD14(t *runtimeTrial) {
	scripts := []string{`throw "no";`, `loop { }`, `let x = "a"; loop { x += x; }`, `(((`}
	var tools []map[string]any
	for i, script := range scripts {
		tool := echoTool(fmt.Sprintf("show%d", i))
		tool["displayScript"] = script
		tools = append(tools, tool)
	}
	s := t.server("tools", tools...)
	t.start()
	h := t.session("s")
	for i := range scripts {
		begun := time.Now()
		id := fmt.Sprintf("c%d", i)
		h.say(callOf(id, fmt.Sprintf("show%d", i), fields{}))
		s.finish(s.await(id), "plain "+id)
		h.resolved(id, "plain "+id)
		t.want(time.Since(begun) < 3*time.Second, "the display script %q held the call up for %v", scripts[i], time.Since(begun))
	}
}
