package mcptools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// TestMB01_ToolsAndResults lists the tools of a peer in three pages and calls one for each kind of content.
func TestMB01_ToolsAndResults(t *testing.T) {
	t.Setenv("MILLRACE_CANARY", "canary")
	d := newDesk(t, nil)
	m := d.manifest()
	by := map[string]agentproto.Tool{}
	for _, tool := range m.Tools {
		by[tool.Name] = tool
	}
	if a := by["p_contents"]; a.Description != "All kinds. It is contents." || a.Annotations != (agentproto.Annotations{ReadOnly: true}) || !strings.Contains(string(a.InputSchema), "draft-07") {
		t.Errorf("%+v", a)
	}
	if a := by["p_env"].Annotations; a != (agentproto.Annotations{Destructive: true}) { // MB06
		t.Errorf("a tool without hints is %+v", a)
	}
	if a := by["p_fails"].Annotations; a != (agentproto.Annotations{Idempotent: true}) {
		t.Errorf("a tool with hints is %+v", a)
	}
	odd := ""
	for name := range by { // MB05
		if regexp.MustCompile(`^p_where_is_it_[0-9a-f]{6}$`).MatchString(name) {
			odd = strings.TrimPrefix(name, "p_")
		}
	}
	if odd == "" {
		t.Errorf("the tools are %v", by)
	}
	for i, c := range []struct{ tool, want string }{
		{"same", `{ "a": 1 }`},
		{"fails", "Error: it went wrong"},
		{"refuses", "Error: p refused the call: not today (-32050)"}, // MB07
		{"gone", `Error: unknown tool "p_gone"`},
	} {
		d.call("t", fmt.Sprint("c", i), c.tool, "{}")
		d.want(c.tool, c.want)
	}
	d.call("t", "all", "contents", "{}") // MB08
	r := d.result()
	var got []string
	for _, c := range r.Content {
		got = append(got, c.Type+" "+c.Text+c.MediaType)
	}
	want := []string{
		"text text", "image image/png", "text [image, 2097152 bytes, left out]", "text [audio, audio/wav, 4 bytes]", "text [resource] link: file:///a (text/plain)",
		"text file:///t\ninside", "image image/gif", "text [resource file:///z, application/zip, 3 bytes]", `text {"a":1}`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(r.DisplayAs) != 1 || r.DisplayAs[0].Text != "for you" {
		t.Errorf("%q, for the user %+v", got, r.DisplayAs)
	}
	d.call("t", "env", "env", "{}") // MB21
	for line := range strings.Lines(d.result().String()) {
		if name, _, _ := strings.Cut(line, "="); !strings.Contains(" HOME LANG LOGNAME PATH SHELL TERM TMPDIR USER "+peerEnv+" ", " "+name+" ") {
			t.Errorf("the program has the variable %q", line)
		}
	}
	d.call("t", "grow", "grow", "{}") // MB03
	d.want("grow", "grown")
	d.until("the new tool is offered", func() bool {
		for _, tool := range d.manifest().Tools {
			if tool.Name == "p_late" {
				return true
			}
		}
		return false
	})
	d.call("t", "late", "late", "{}")
	d.want("late", "late")
	if p := d.set.Problems(); len(p) > 0 {
		t.Error(p)
	}
}

// TestMB15_CrashInCall has the peer end during a call, and checks which calls are sent again.
func TestMB15_CrashInCall(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(o *mcptools.Options) {
		o.Servers[0].Repeat = map[string]mcptools.Repeat{"crash_always": mcptools.Always, "crash_never": mcptools.Never}
		o.Bounds.Ends = 100
	})
	const unknown = "Error: the connection to p broke after the call was sent. It may have been carried out; it was not repeated."
	for _, c := range []struct {
		tool, want string
		runs       int
	}{{"crash_read", "the second time", 2}, {"crash", unknown, 1}, {"crash_always", "the second time", 2}, {"crash_never", unknown, 1}} {
		d.call("t", c.tool, c.tool, "{}")
		d.want(c.tool, c.want)
		if n := d.noted(c.tool); n != c.runs {
			t.Errorf("%s was carried out %d times, not %d", c.tool, n, c.runs)
		}
	}
}

// TestMB10_Cancel checks that the peer is told of a cancelled call, and that the call has no result.
func TestMB10_Cancel(t *testing.T) {
	d := newDesk(t, nil)
	d.call("t", "w", "wait", "{}")
	d.until("the call is there", func() bool { return d.noted("waits") == 1 })
	d.post(mcptools.Base("p")+"/cancel_tool_call", `{"thread_id":"t","tool_call_id":"w"}`)
	d.until("the call is cancelled", func() bool { return d.noted("cancelled") == 1 })
	d.call("t", "next", "same", "{}")
	d.want("the next call", `{ "a": 1 }`)
}

// TestMB09_Progress receives progress at a high rate and shows some of it, but none after the result.
func TestMB09_Progress(t *testing.T) {
	d := newDesk(t, nil)
	began := time.Now()
	d.call("t", "p", "progress", "{}")
	views := 0
	for over := false; !over; {
		select {
		case m := <-d.messages:
			over = m.Type() == agentproto.TypeToolResult
			if v, ok := m.(*agentproto.ViewUpdate); ok {
				if views++; v.ViewType != "mcp.progress" || !strings.Contains(string(v.Content), `"message":"going on"`) {
					t.Errorf("a view is %s %s", v.ViewType, v.Content)
				}
			}
		case <-time.After(patience):
			t.Fatal("nothing comes")
		}
	}
	if most := int(time.Since(began)/(200*time.Millisecond)) + 1; views > most {
		t.Errorf("%d views in %v", views, time.Since(began))
	}
	d.call("t", "next", "same", "{}")
	if m := <-d.messages; m.Type() != agentproto.TypeToolResult {
		t.Errorf("%+v came behind the result", m)
	}
}

// TestMB18_Down has a program that ends at once. The server is given up, a call fails at once, and the
// tools known from before are still listed.
func TestMB18_Down(t *testing.T) {
	folder := t.TempDir()
	d := newDesk(t, func(o *mcptools.Options) { o.State = folder })
	d.manifest()
	if err := d.set.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := newDesk(t, func(o *mcptools.Options) {
		o.State, o.Bounds.Ends = folder, 1
		o.Servers[0].Env["MODE"] = "dies"
	})
	if n := len(again.manifest().Tools); n < 10 {
		t.Errorf("%d tools are offered that were known", n)
	}
	again.until("it is given up", func() bool { return len(again.set.Problems()) > 0 })
	again.call("t", "c", "same", "{}")
	if r := again.result().String(); !strings.HasPrefix(r, "Error: ") || !strings.HasSuffix(r, "the call was not sent") || !strings.Contains(r, "no such thing") {
		t.Errorf("%q", r)
	}
}

// TestMB23_Noise has programs that write endlessly, or something other than the protocol.
func TestMB23_Noise(t *testing.T) {
	for _, mode := range []string{"noise", "endless"} {
		d := newDesk(t, func(o *mcptools.Options) {
			o.Servers[0].Env["MODE"] = mode
			o.Bounds.Ends, o.Bounds.Result, o.Start = 1, 1<<20, time.Millisecond
		})
		d.until(mode+" is a problem", func() bool { return len(d.set.Problems()) > 0 })
	}
}

// TestMB19_WholeGroupEnds closes a set whose program ignores requests to end, as does its child. Both end.
func TestMB19_WholeGroupEnds(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(o *mcptools.Options) { o.Servers[0].Env["MODE"] = "stubborn" })
	data, err := os.ReadFile(d.notes)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.set.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var pid int
		if _, err := fmt.Sscanf(line, "pid %d", &pid); err != nil {
			continue
		}
		d.until(fmt.Sprint(pid, " has ended"), func() bool { return !alive(pid) })
	}
}

// TestMB11_Elicitation answers forms with one choice, with several, with fields that cannot be shown, and with a secret.
func TestMB11_Elicitation(t *testing.T) {
	for _, mode := range []string{"legacy", "newest"} {
		t.Run(mode, func(t *testing.T) {
			elicitation(t, newDesk(t, func(o *mcptools.Options) { o.Servers[0].Env["MODE"] = mode }))
		})
	}
}

func elicitation(t *testing.T, d *desk) {
	const (
		yes   = `{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}`
		two   = `{"type":"object","properties":{"size":{"type":"string","title":"The size","enum":["s","m"]},"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"b","title":"Blue"}]}},"required":["size","colour"]}`
		free  = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
		deflt = `{"type":"object","properties":{"name":{"type":"string","default":"Ada"},"n":{"type":"integer"}}}`
		pass  = `{"type":"object","properties":{"p":{"type":"boolean","title":"Your Password"}}}`
	)
	for i, c := range []struct {
		form    string
		prompts []string
		answers []int
		want    string
	}{
		{yes, []string{"p asks: Well?? Yes No Decline 2"}, []int{0}, `accept {"sure":true}`},
		{yes, []string{""}, []int{2}, `decline null`},
		{two, []string{"p asks: Well? (The size)? s m Decline 2", "p asks: Well? (colour)? Red Blue Decline 2"}, []int{1, 1}, `accept {"colour":"b","size":"m"}`},
		{two, []string{"", ""}, []int{1, 2}, `decline null`},
		{free, []string{"p asks: Well?? Decline 0"}, []int{0}, `decline null`},
		{deflt, []string{"p asks: Well?? Send the defaults Decline 1"}, []int{0}, `accept {"name":"Ada"}`},
		{pass, nil, nil, `decline null`}, // MB13
	} {
		d.call("t", fmt.Sprint("e", i), "ask", `{"form":`+c.form+`}`)
		for n, answer := range c.answers {
			m := d.next()
			q, ok := m.(*agentproto.UserChoice)
			if !ok {
				t.Fatalf("%s: %+v came", c.form, m)
			}
			got := fmt.Sprintf("%s? %s %d", q.Prompt, strings.Join(q.Choices, " "), q.Default)
			if want := c.prompts[n]; want != "" && got != want {
				t.Errorf("it is asked %q, want %q", got, want)
			}
			d.post(q.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":%d}`, q.ID, answer))
		}
		d.want(c.form, c.want)
	}
}

// TestElicitationOfSeveralThreads has a server ask during calls of two conversations. An older server does not say which call
// asks, so no user is asked.
func TestElicitationOfSeveralThreads(t *testing.T) {
	for _, mode := range []string{"legacy", "newest"} {
		d := newDesk(t, func(o *mcptools.Options) { o.Servers[0].Env["MODE"] = mode })
		d.call("other", "w", "wait", "{}")
		d.until("the call is there", func() bool { return d.noted("waits") == 1 })
		d.call("t", "e", "ask", `{"form":{"type":"object","properties":{"sure":{"type":"boolean"}}}}`)
		if mode == "newest" { // a request within an answer belongs to that call
			q, ok := d.next().(*agentproto.UserChoice)
			if !ok || q.GroupID != "t" {
				t.Fatalf("%+v does not ask in the conversation of the call", q)
			}
			d.post(q.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":%d}`, q.ID, q.Default))
		}
		d.want("the question", "decline null")
	}
}

// TestOptionsRefused opens sets with invalid options.
func TestOptionsRefused(t *testing.T) {
	for what, s := range map[string]mcptools.Server{
		"no name": {Command: []string{"true"}}, "a name": {Name: "a b", Command: []string{"true"}}, "nothing": {Name: "a"},
		"both": {Name: "a", Command: []string{"true"}, URL: "https://mcp.example"}, "URL": {Name: "a", URL: "ftp://mcp.example"}, "user": {Name: "a", URL: "https://u:p@mcp.example"},
		"pattern": {Name: "a", Command: []string{"true"}, Tools: []string{"["}}, "repeat": {Name: "a", Command: []string{"true"}, Repeat: map[string]mcptools.Repeat{"x": "often"}},
		"program": {Name: "a", Command: []string{filepath.Join(t.TempDir(), "none")}}, "variable": {Name: "a", Command: []string{"true"}, Env: map[string]string{"A=B": ""}},
		"users of a URL": {Name: "a", URL: "https://mcp.example", PerUser: true}, "idle URL": {Name: "a", URL: "https://mcp.example", Idle: time.Hour},
		"a folder of all": {Name: "a", Command: []string{"true"}, PerUser: true, Dir: "/"}, "no State": {Name: "a", Command: []string{"true"}, PerUser: true},
		"most of none": {Name: "a", Command: []string{"true"}, MaxUsers: 1}, "too few": {Name: "a", Command: []string{"true"}, PerUser: true, MaxUsers: -1},
	} {
		if set, err := mcptools.Open(t.Context(), mcptools.Options{Servers: []mcptools.Server{s}}); err == nil {
			t.Errorf("%s: it was opened", what)
			_ = set.Close(t.Context())
		}
	}
}
