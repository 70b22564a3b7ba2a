package mcpserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// fillIn makes a call ask a form of two questions.
func fillIn(d *host.Description, number int) {
	d.State = agentproto.ChoicePending
	d.Version++
	d.Prompt = &host.CallPrompt{
		Number: number, Choice: &agentproto.UserChoice{Prompt: "Fill in", Choices: []string{"Decline"}},
		Form: form.Form{Questions: []form.Question{
			{Name: "user", Message: "Who?", Fields: []form.Field{{Name: "name", Kind: form.Text, Required: true}}},
			{Name: "p7", Message: "Sure?", Fields: []form.Field{{Name: "ok", Kind: form.Boolean}}},
		}},
	}
}

// TestFormTask answers two open questions of a task one after the other. Invalid answers change nothing. A question keeps the
// name that the tool gave it, unless that could be the name of another prompt.
func TestFormTask(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	id := w.task()
	w.calls.with(func(d *host.Description) { fillIn(d, 1) })
	got := w.get(id)
	if got.Result["status"] != "input_required" || !strings.Contains(got.text, `"user":{`) || !strings.Contains(got.text, `"p7.1":{`) || !strings.Contains(got.text, `"message":"Who?"`) {
		t.Fatalf("asked: %s", got.text)
	}
	for _, responses := range []string{
		`{"p1":{"action":"decline"}}`, `{"p7":{"action":"decline"}}`, `{"user.1":{"action":"decline"}}`, `{"user":{"action":"accept","content":{"name":3}}}`, `{"user":{"action":"accept"}}`,
		`{"user":{"action":"accept","content":{"name":"Ada","more":true}}}`, `{"user":{"action":"other"}}`, `{"user":3}`, `{"p7.1":{"action":"accept","content":{"ok":"yes"}}}`,
	} {
		if got := w.update(id, responses); got.Result["resultType"] != "complete" {
			t.Errorf("%s: %s", responses, got.text)
		}
		if got := w.get(id); !strings.Contains(got.text, `"user":{`) || !strings.Contains(got.text, `"p7.1":{`) || len(w.calls.filled) != 0 {
			t.Errorf("after %s: %s", responses, got.text)
		}
	}
	w.update(id, `{"user":{"action":"accept","content":{"name":"Ada"}}}`)
	if got := w.get(id); got.Result["status"] != "input_required" || strings.Contains(got.text, `"user":{`) || !strings.Contains(got.text, `"p7.1":{`) {
		t.Errorf("answered in part: %s", got.text)
	}
	w.update(id, `{"user":{"action":"accept","content":{"name":"Bob"}},"p7.1":{"action":"cancel"}}`)
	want := []string{`user={"name":"Ada"}`, "p7="}
	if got := w.get(id); got.Result["status"] != "completed" || !slices.Equal(w.calls.filled, want) {
		t.Errorf("answered: %s, filled in %q", got.text, w.calls.filled)
	}
}

// TestFormRounds answers a form from a client without tasks: the next round, with another state, asks the questions left out.
func TestFormRounds(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	w.caps = noTasks
	w.calls.onCall = func(d *host.Description) { fillIn(d, 2) }
	call := func(more string) (reply, string) {
		got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}`+more+`}`)
		state, _ := got.Result["requestState"].(string)
		return got, state
	}
	got, first := call("")
	if !strings.Contains(got.text, `"user.2":{`) || !strings.Contains(got.text, `"p7.2":{`) {
		t.Fatalf("the first round: %s", got.text)
	}
	got, second := call(fmt.Sprintf(`,"requestState":%q,"inputResponses":{"user.2":{"action":"accept","content":{"name":"Ada"}}}`, first))
	if got.Result["resultType"] != "input_required" || strings.Contains(got.text, `"user.2":{`) || !strings.Contains(got.text, `"p7.2":{`) || second == first {
		t.Fatalf("the second round: %s", got.text)
	}
	got, _ = call(fmt.Sprintf(`,"requestState":%q,"inputResponses":{"p7.2":{"action":"accept","content":{"ok":true}}}`, second))
	if got.Result["resultType"] != "complete" || len(w.calls.made) != 1 || len(w.calls.filled) != 2 {
		t.Errorf("the end: %s, filled in %q", got.text, w.calls.filled)
	}
}

// TestAskFirst checks that the tools chosen by AskFirst ask before a task exists.
func TestAskFirst(t *testing.T) {
	first := func(tool string) bool { return tool == "one" }
	w := newWorld(t, mcpserver.Options{AskFirst: first, Fast: time.Minute})
	w.calls.onCall = func(d *host.Description) { fillIn(d, 1) }
	if got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`); got.Result["resultType"] != "input_required" || got.Result["taskId"] != nil {
		t.Errorf("it asks first: %s", got.text)
	}
	w = newWorld(t, mcpserver.Options{AskFirst: first})
	w.calls.onCall = func(d *host.Description) { fillIn(d, 1) }
	if got := w.say(t.Context(), "tools/call", `{"name":"two","arguments":{}}`); got.Result["resultType"] != "task" {
		t.Errorf("another tool: %s", got.text)
	}
}
