package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// guestForm asks two questions at once.
var guestForm = form.Form{Questions: []form.Question{
	{Name: "guest", Message: "Who comes?", Fields: []form.Field{{Name: "name", Kind: form.Text, Required: true}}},
	{Name: "size", Message: "Which size?", Fields: []form.Field{{Name: "size", Kind: form.Choice, Required: true, Options: []form.Option{{Value: "s", Title: "small"}, {Value: "l", Title: "large"}}}}},
}}

// asking serves a tool that asks a form and returns the values.
func asking(t *testing.T) (url string) {
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	s := toolserver.New(toolserver.Options{Name: "asking", PublicURL: web.URL})
	handler = s
	toolserver.Add(s, "invite", "Invites somebody.", func(ctx context.Context, _ struct{}) (string, error) {
		a, err := toolserver.Ask(ctx, toolserver.Question{Form: guestForm})
		if err != nil {
			return "", err
		}
		filled, err := form.Filled(a.Values)
		return string(filled), err
	})
	return web.URL
}

// TestFormIsKept fills in a form in two parts, first over HTTP and then over the MCP front, and kills both processes after each
// part. No part is asked again, and the tool receives all values.
func TestFormIsKept(t *testing.T) {
	t.Parallel()
	s := serveRuntime(t, t.TempDir(), []string{asking(t)})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	front := startMCP(t, s)
	for n := range 2 {
		with := func() speaker { // each has its own owner
			if n == 0 {
				return overHTTP{s}
			}
			return front
		}
		made, err := until(ctx, with, "tools/call", map[string]any{"name": "invite", "arguments": map[string]any{}}, func(a *mcpAnswer) bool { return a.Result.TaskID != "" })
		if err != nil {
			t.Fatal(err)
		}
		task := map[string]any{"taskId": made.Result.TaskID}
		for turn, part := range []struct{ key, content string }{{"guest", `{"name":"Ada"}`}, {"size", `{"size":"l"}`}} {
			asked, err := until(ctx, with, "tasks/get", task, func(a *mcpAnswer) bool { return a.Error != nil || a.Result.Status == "input_required" })
			if err != nil {
				t.Fatal(err)
			}
			if open, err := json.Marshal(asked.Result.InputRequests); err != nil || strings.Count(string(open), "elicitation/create") != 2-turn || !strings.Contains(string(open), `"`+part.key+`":`) {
				t.Fatalf("turn %d: %s is asked, %v", turn, open, err)
			}
			answer := json.RawMessage(`{"` + part.key + `":{"action":"accept","content":` + part.content + `}}`)
			if a, err := with().say(ctx, int(requests.Add(1)), "tasks/update", map[string]any{"taskId": made.Result.TaskID, "inputResponses": answer}); err != nil || a.Error != nil {
				t.Fatalf("tasks/update: %v, %+v", err, a)
			}
			s.kill()
			front.kill()
			s.start()
			front = startMCP(t, s)
		}
		a, err := until(ctx, with, "tasks/get", task, func(a *mcpAnswer) bool {
			return a.Error != nil || a.Result.Status != "" && a.Result.Status != "working"
		})
		if err != nil {
			t.Fatal(err)
		}
		if a.Result.Status != "completed" || !strings.Contains(string(a.Result.Result), `{\"guest\":{\"name\":\"Ada\"},\"size\":{\"size\":\"l\"}}`) {
			t.Errorf("the task is %s with %s and asks %v", a.Result.Status, a.Result.Result, a.Result.InputRequests)
		}
	}
}

// TestChatForm fills in a form line by line in a chat. An invalid line is reported and asked again.
func TestChatForm(t *testing.T) {
	encoded, err := guestForm.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var posted string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posted = r.URL.Path + " " + string(body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer api.Close()
	var out bytes.Buffer
	c := &chatting{api: apiClient{api.URL, "token"}, thread: "t", out: &out, shown: map[string]bool{}}
	c.showPrompts([]follow.Prompt{{ID: "c1", Operation: "invite", Toolset: "http://tool.example", Prompt: "Who?", Choices: []string{"Decline"}, Form: encoded}})
	for _, line := range []string{"", "Ada", "3", "2"} {
		if posted != "" {
			t.Fatalf("%s is posted before %q", posted, line)
		}
		if err := c.line(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if want := `/threads/t/answers {"id":"c1","values":{"guest":{"name":"Ada"},"size":{"size":"l"}}}`; posted != want {
		t.Errorf("posted %s, want %s", posted, want)
	}
	for _, part := range []string{"invite of http://tool.example asks:", "Who comes?", "name is needed", "1) small", "enter a number from 1 to 2"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}
	if len(c.choices()) != 0 {
		t.Error("it is asked still")
	}
	c.showPrompts([]follow.Prompt{{ID: "c2", Choices: []string{"Decline"}, Form: jsontext.Value(encoded)}})
	if err := c.dismiss(t.Context()); err != nil || posted != `/threads/t/answers {"id":"c2","selected":0}` {
		t.Errorf("at the end of the input %s is posted, %v", posted, err)
	}
}

// TestAPIForm shows and answers forms over the API.
func TestAPIForm(t *testing.T) {
	t.Parallel()
	s := serveRuntime(t, t.TempDir(), []string{asking(t)})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"invite","arguments":{}}`, http.StatusAccepted)
	for {
		if _, text := s.request(ctx, "GET", "/calls/t/c/state?wait=10s&after=1", "", http.StatusOK); strings.Contains(string(text), `"form":{"questions":[{"name":"guest"`) {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("nothing is asked")
		}
	}
	for _, bad := range []string{
		`{"prompt":1,"values":{"guest":{}}}`, `{"prompt":1,"values":[]}`, `{"prompt":1,"selected":0,"values":{}}`, `{"prompt":1,"values":{"other":{}}}`,
		`{"prompt":1,"values":{"guest":{"name":"` + strings.Repeat("x", form.MaxBytes) + `"}}}`,
	} {
		s.request(ctx, "POST", "/calls/t/c/answers", bad, http.StatusBadRequest)
	}
	if _, text := s.request(ctx, "GET", "/threads/t/prompts", "", http.StatusOK); !strings.Contains(string(text), `"form":{"questions":[{"name":"guest"`) {
		t.Errorf("the prompts are %s", text)
	}
	s.request(ctx, "POST", "/calls/t/c/answers", `{"prompt":1,"values":{"size":null}}`, http.StatusNoContent)
	if _, text := s.request(ctx, "GET", "/calls/t/c/state", "", http.StatusOK); strings.Contains(string(text), `"name":"size"`) || !strings.Contains(string(text), `"name":"guest"`) {
		t.Errorf("answered in part: %s", text)
	}
	s.request(ctx, "POST", "/threads/t/answers", `{"id":"c","values":{"guest":{"name":"Ada"}}}`, http.StatusNoContent)
	for {
		_, text := s.request(ctx, "GET", "/calls/t/c/state?wait=10s&after=3", "", http.StatusOK)
		if strings.Contains(string(text), `"result"`) {
			if !strings.Contains(string(text), `{\"guest\":{\"name\":\"Ada\"}}`) {
				t.Errorf("the result is %s", text)
			}
			break
		}
		if ctx.Err() != nil {
			t.Fatal("there is no result")
		}
	}
}
