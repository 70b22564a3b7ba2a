package agentinspect_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/agentinspect"
	"github.com/millrace/millrace/dataflow/inspect"
)

// The shapes of the JSON as its readers decode it.
type (
	callShape struct {
		Thread, ID, State, Cause, Operation, Toolset, Place string
		UserID                                              string `json:"user_id"`
		Made                                                time.Time
	}
	callsShape struct {
		Calls []callShape
		Next  string
	}
	oneCall struct {
		Call   *callShape
		Events []struct{ What, Why string }
		Result *struct {
			OK   bool
			Text string
		}
	}
	promptsShape struct {
		Prompts []struct {
			Thread, ID, Operation, Toolset, Prompt, Host string
			AuthURL                                      string `json:"auth_url"`
			Since                                        string
			Choices                                      []string
		}
	}
	threadShape struct {
		ID       string
		Messages int
		Pending  int
		Asking   bool
	}
)

// TestCalls follows a call from its start to its result: in lists, on its own page and in its events.
func TestCalls(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		before := time.Now().Add(-time.Second) // stored times may be less exact
		w.call("t 1/<x>", "c&1", "wait")
		var open callsShape
		w.json("agents/v1/calls?state=open", &open, func() bool { return len(open.Calls) == 1 })
		c := open.Calls[0]
		if c.Thread != "t 1/<x>" || c.ID != "c&1" || c.State != "pending" || c.Operation != "wait" || c.Toolset != w.tool.URL || c.UserID != "u1" || c.Place != "here" ||
			c.Made.Before(before) || c.Made.After(time.Now()) {
			t.Errorf("the call is %+v", c)
		}
		one := "agents/v1/call?" + url.Values{"thread": {c.Thread}, "id": {c.ID}}.Encode()
		var is oneCall
		w.json(one, &is, func() bool { return len(is.Events) == 2 })
		if e := is.Events; e[0].What != "made" || e[0].Why != "wait" || e[1].What != "accepted" || e[1].Why != w.tool.URL {
			t.Errorf("what happened is %v", e)
		}
		w.mu.Lock()
		waiting := w.waiting["c&1"]
		w.mu.Unlock()
		w.result(waiting, hostile)
		w.json(one, &is, func() bool { return is.Result != nil && len(is.Events) == 3 })
		if !is.Result.OK || is.Result.Text != hostile || is.Call.State != "completed" || is.Call.Cause != "tool_result" || is.Events[2].What != "resolved" {
			t.Errorf("at the end there is %+v", is)
		}
		w.result(waiting, "again")
		w.json(one, &is, func() bool {
			return len(is.Events) == 4 && is.Events[3].What == "dropped" && is.Events[3].Why == "duplicate"
		})
		for _, path := range []string{"agents/calls", "agents/calls?state=completed&thread=" + url.QueryEscape(c.Thread), strings.Replace(one, "v1/", "", 1)} {
			if status, page := w.get(path); status != 200 || !strings.Contains(page, "c&amp;1") || strings.Contains(page, "<script>alert") || strings.Contains(page, "\u202e") {
				t.Errorf("%s: %d: %s", path, status, page)
			}
		}
		if _, page := w.get("agents/calls?state=open"); strings.Contains(page, "c&amp;1") {
			t.Errorf("a call that is over is open: %s", page)
		}
		// The page of keys finds the call under the key that links use.
		if status, page := w.get("keys?" + url.Values{"type": {"agentproto.CallKey"}, "key": {`{"GroupID":"t 1/<x>","ID":"c&1"}`}}.Encode()); status != 200 || !strings.Contains(page, "CallingMachine") {
			t.Errorf("the page of keys is %d: %s", status, page)
		}
		if w.opts.State == nil {
			return
		}
		w.stop()
		w.start()
		w.json(one, &is, func() bool { return is.Result != nil })
		if is.Call.State != "completed" || is.Result.Text != hostile {
			t.Errorf("after a restart there is %+v", is)
		}
	})
}

// TestCallsByPages checks that each of many calls is on exactly one page, in the same order each time.
func TestCallsByPages(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		const calls = 230
		for i := range calls {
			w.call(fmt.Sprint("t", i%3), fmt.Sprint("c", i), "wait")
		}
		for parameters, want := range map[string]int{"": calls, "&thread=t1": 77, "&state=completed": 0, "&state=pending&thread=t2": 76} {
			var before []string
			for range 2 {
				var all []string
				pages, from := 0, ""
				for more := true; more; pages++ {
					var page callsShape
					w.json("agents/v1/calls?from="+from+parameters, &page, func() bool { return true })
					if len(page.Calls) > 50 {
						t.Fatalf("a page has %d calls", len(page.Calls))
					}
					for _, c := range page.Calls {
						all = append(all, c.ID)
					}
					from = page.Next
					more = from != ""
				}
				sorted := slices.Clone(all)
				slices.Sort(sorted)
				if len(all) != want || len(slices.Compact(sorted)) != want {
					t.Fatalf("%q: %d calls, %d of them different, on %d pages, want %d", parameters, len(all), len(slices.Compact(sorted)), pages, want)
				}
				if before != nil && !slices.Equal(all, before) {
					t.Errorf("%q: the order is another one", parameters)
				}
				before = all
			}
		}
	})
}

// TestPrompts checks that a prompt can be answered once and then disappears, and that an answer to any
// other prompt is refused.
func TestPrompts(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		key := w.call("t", "c1", "ask")
		w.call("t", "c2", "login")
		var all promptsShape
		w.json("agents/v1/prompts", &all, func() bool { return len(all.Prompts) == 2 })
		i := slices.IndexFunc(all.Prompts, func(p struct {
			Thread, ID, Operation, Toolset, Prompt, Host string
			AuthURL                                      string `json:"auth_url"`
			Since                                        string
			Choices                                      []string
		}) bool {
			return p.ID == "c1"
		})
		choice, login := all.Prompts[i], all.Prompts[1-i]
		if choice.Operation != "ask" || choice.Toolset != w.tool.URL || len(choice.Choices) != 2 || choice.Prompt != "Which one? "+asked {
			t.Errorf("the choice is %+v", choice)
		}
		if login.AuthURL != "https://login.example/?scope=a" || login.Host != "login.example" || login.Operation != "login" {
			t.Errorf("the authorization is %+v", login)
		}
		status, page := w.get("agents/prompts")
		if status != 200 || strings.Contains(page, "<script>alert") || strings.Contains(page, "\u202e") || strings.Count(page, "<form") != 1 ||
			!strings.Contains(page, `<a href="https://login.example/?scope=a" rel="noreferrer noopener">`) {
			t.Errorf("the page is %d: %s", status, page)
		}
		post := func(s string, form url.Values, header ...string) (int, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), "POST", s+"/x/agents/answers", strings.NewReader(form.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, resp.Header.Get("Location") + string(body)
		}
		form := func(change ...string) url.Values {
			v := url.Values{"thread": {"t"}, "id": {"c1"}, "since": {choice.Since}, "selected": {"1"}}
			for i := 0; i < len(change); i += 2 {
				v.Set(change[i], change[i+1])
			}
			return v
		}
		readOnly, closed := w.serve(inspect.Options{Values: true}, agentinspect.Options{}), w.serve(inspect.Options{}, agentinspect.Options{Answers: true})
		defer readOnly.Close()
		defer closed.Close()
		for _, x := range []struct {
			server string
			form   url.Values
			header []string
			want   int
		}{
			{readOnly.URL, form(), nil, 403},
			{closed.URL, form(), nil, 403},
			{w.pages.URL, form(), []string{"Origin", "http://evil.example"}, 403},
			{w.pages.URL, form(), []string{"Sec-Fetch-Site", "cross-site"}, 403},
			{w.pages.URL, form(), []string{"Content-Type", "text/plain"}, 400},
			{w.pages.URL, form("selected", "2"), nil, 400},
			{w.pages.URL, form("selected", "-2"), nil, 400},
			{w.pages.URL, form("selected", "x"), nil, 400},
			{w.pages.URL, form("since", "x"), nil, 400},
			{w.pages.URL, form("since", "2020-01-01T00:00:00Z"), nil, 404},
			{w.pages.URL, form("id", "c2"), nil, 404},
			{w.pages.URL, form("thread", "other"), nil, 404},
		} {
			if status, body := post(x.server, x.form, x.header...); status != x.want {
				t.Errorf("%v %v: %d, want %d: %s", x.form, x.header, status, x.want, body)
			}
		}
		if status, to := post(w.pages.URL, form()); status != http.StatusSeeOther || to != "prompts?answered=1" {
			t.Errorf("the answer is answered %d %s", status, to)
		}
		r, err := w.rt.Await(t.Context(), key)
		if err != nil || r.Result.String() != "chosen" {
			t.Errorf("the call is resolved with %v (%v)", r, err)
		}
		w.json("agents/v1/prompts", &all, func() bool { return len(all.Prompts) == 1 })
		if status, _ := post(w.pages.URL, form()); status != 404 {
			t.Errorf("a second answer is answered %d", status)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.answers) != 1 || w.answers[0] != `c1 {"id":"c1","selected":1}` {
			t.Errorf("the tool has %q", w.answers)
		}
		var is oneCall
		w.json("agents/v1/call?thread=t&id=c1", &is, func() bool { return len(is.Events) > 4 && is.Events[len(is.Events)-1].What == "resolved" })
		if what := fmt.Sprint(is.Events); !strings.Contains(what, "{answered blue "+asked+"}") || !strings.Contains(what, "{choice pending ask}") {
			t.Errorf("what happened is %s", what)
		}
	})
}

// TestRefused checks that a request for something that cannot be shown is refused with a reason.
func TestRefused(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		for path, want := range map[string]int{
			"agents/":                             200,
			"agents/?x=1":                         400,
			"agents/none":                         404,
			"agents/v1/":                          404,
			"agents/v1/status":                    200,
			"agents/status":                       404,
			"agents/v1/thread?id=none":            404,
			"agents/thread?id=none":               404,
			"agents/v1/call?thread=t&id=none":     404,
			"agents/v1/calls?state=x":             400,
			"agents/v1/calls?from=x":              400,
			"agents/v1/calls?from=-1.0":           400,
			"agents/v1/calls?from=9.0":            200,
			"agents/v1/calls?from=0.99999999999":  400,
			"agents/v1/threads?from=1":            400,
			"agents/events?thread=none":           404,
			"agents/events?thread=none&from=-1":   400,
			"agents/v1/messages?id=none&from=x":   400,
			"agents/v1/prompts?x=1":               400,
			"agents/v1/calls?state=open&state=ok": 400,
		} {
			if status, body := w.get(path); status != want {
				t.Errorf("%s: %d, want %d: %s", path, status, want, body)
			}
		}
		resp, err := http.Post(w.pages.URL+"/x/agents/calls", "application/json", strings.NewReader("{}"))
		if err != nil || resp.StatusCode != 405 {
			t.Errorf("a POST is answered %v (%v)", resp, err)
		}
	})
}

// TestWithoutValues checks that pages without Values show nothing written by a user, a model or a tool,
// and none of their names.
func TestWithoutValues(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		w.call("secret-thread", "secret-call", "ask")
		var all promptsShape
		w.json("agents/v1/prompts", &all, func() bool { return len(all.Prompts) == 1 })
		s := w.serve(inspect.Options{}, agentinspect.Options{Answers: true})
		defer s.Close()
		for _, path := range []string{"threads", "thread?id=x", "calls", "call?thread=secret-thread&id=secret-call", "prompts", "events?thread=x", "v1/messages?id=x"} {
			if status, body := w.getFrom(s, "agents/"+path); status != 403 || strings.Contains(body, "secret") {
				t.Errorf("%s: %d: %s", path, status, body)
			}
		}
		for _, path := range []string{"", "v1/status"} {
			if status, body := w.getFrom(s, "agents/"+path); status != 200 || strings.Contains(body, "secret") || !strings.Contains(body, w.tool.URL) {
				t.Errorf("%q: %d: %s", path, status, body)
			}
		}
	})
}

// TestOverview checks that the overview lists every tool server, even one that does not answer, and
// that a page stays small.
func TestOverview(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		w.call("t", "c", "greet")
		w.tool.CloseClientConnections()
		status, page := w.get("agents/")
		if status != 200 || len(page) > 150_000 || !strings.Contains(page, w.tool.URL) || strings.Contains(page, "<script>alert") || strings.Count(page, "<script>") != 1 {
			t.Errorf("%d, %d bytes: %s", status, len(page), page)
		}
		var s struct {
			Servers []struct {
				URL, Name, State string
				Tools            []struct{ Name string }
			}
			Counts struct{ Calls, Results uint64 }
			Memory struct{ Bytes int64 }
		}
		w.json("agents/v1/status", &s, func() bool { return s.Counts.Results == 1 })
		if len(s.Servers) != 1 || s.Servers[0].State != "ok" || s.Servers[0].Name != "tools" || len(s.Servers[0].Tools) != 5 || s.Counts.Calls != 1 {
			t.Errorf("the status is %+v", s)
		}
		w.stop()
		w.opts.Toolsets = append(w.opts.Toolsets, "http://127.0.0.1:1")
		w.start()
		w.json("agents/v1/status", &s, func() bool { return len(s.Servers) == 2 })
		if s.Servers[1].State != "no manifest" {
			t.Errorf("a server that does not answer is %+v", s.Servers[1])
		}
	})
}
