package agentinspect_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// guests is a form with two questions.
const guests = `{"questions":[{"name":"guest","message":"Who?","schema":{"type":"object","properties":{` +
	`"name":{"type":"string","title":"<b>Name</b>"},"pieces":{"type":"integer","default":2},` +
	`"drinks":{"type":"array","items":{"type":"string","enum":["tea","milk"]}}},"required":["name"]}},` +
	`{"name":"late","message":"Late?","schema":{"type":"object","properties":{"sure":{"type":"boolean"}}}}]}`

// TestPromptWithForm fills in a form on the page. An invalid answer is reported and changes nothing. A valid one reaches the tool
// exactly once.
func TestPromptWithForm(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		key := w.call("t", "c1", "fill")
		var all struct{ Prompts []struct{ Since time.Time } }
		w.json("agents/v1/prompts", &all, func() bool { return len(all.Prompts) == 1 })
		status, page := w.get("agents/prompts")
		for _, wanted := range []string{`name="f0.0"`, `name="f0.1"`, `value="2"`, `name="f0.2"`, `value="tea"`, `name="d1"`, `name="fill"`, "Who?", "&lt;b&gt;Name&lt;/b&gt;"} {
			if status != http.StatusOK || !strings.Contains(page, wanted) {
				t.Errorf("the page has no %s (%d): %s", wanted, status, page)
			}
		}
		answer := func(change ...string) (int, string) {
			t.Helper()
			v := url.Values{
				"thread": {"t"}, "id": {"c1"}, "since": {all.Prompts[0].Since.Format(time.RFC3339Nano)}, "fill": {"1"},
				"f0.0": {"Ada"}, "f0.1": {"3"}, "f0.2": {"tea", "milk"}, "d1": {"on"},
			}
			for i := 0; i < len(change); i += 2 {
				v.Set(change[i], change[i+1])
			}
			resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).PostForm(w.pages.URL+"/x/agents/answers", v)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			return resp.StatusCode, resp.Header.Get("Location")
		}
		for _, bad := range [][]string{{"f0.1", "many"}, {"f0.2", "beer"}, {"since", "2020-01-01T00:00:00Z"}} {
			if status, _ := answer(bad...); status != http.StatusBadRequest && status != http.StatusNotFound {
				t.Errorf("%v is answered %d", bad, status)
			}
		}
		if status, to := answer(); status != http.StatusSeeOther || to != "prompts?answered=1" {
			t.Errorf("the answer is answered %d %s", status, to)
		}
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Result.String() != "chosen" {
			t.Errorf("the call is resolved with %v (%v)", r, err)
		}
		if status, _ := answer(); status != http.StatusNotFound {
			t.Errorf("a second answer is answered %d", status)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		want := `c1 {"id":"c1","selected":0,"x-values":{"guest":{"drinks":["tea","milk"],"name":"Ada","pieces":3},"late":null}}`
		if !slices.Equal(w.answers, []string{want}) {
			t.Errorf("the tool has %q, want %q", w.answers, want)
		}
	})
}
