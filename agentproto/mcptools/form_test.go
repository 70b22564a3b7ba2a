package mcptools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// TestMB12_Forms has MCP servers ask for texts and several selections in one form, and checks the answer that the server
// receives. A nested form is declined.
func TestMB12_Forms(t *testing.T) {
	const (
		free   = `{"type":"object","properties":{"some":{"type":"array","items":{"type":"string","enum":["a","b"]}},"name":{"type":"string","maxLength":5},"n":{"type":"integer","default":3}},"required":["name"]}`
		nested = `{"type":"object","properties":{"x":{"type":"object","properties":{"y":{"type":"string"}}}}}`
	)
	d := newDesk(t, func(o *mcptools.Options) { o.Servers[0].Env["MODE"] = "newest" })
	asked := func() *agentproto.UserChoice {
		t.Helper()
		m := d.next()
		q, ok := m.(*agentproto.UserChoice)
		if !ok {
			t.Fatalf("%+v came", m)
		}
		return q
	}
	fill := func(q *agentproto.UserChoice, values string) {
		d.post(q.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":%d,"x-values":%s}`, q.ID, q.Default, values))
	}
	d.call("t", "one", "ask", `{"form":`+free+`}`)
	q := asked()
	f, err := form.Parse(q.Form)
	if err != nil || len(f.Questions) != 1 || f.Questions[0].Name != "q" || f.Questions[0].Message != "p asks: Well?" || f.Questions[0].Fields[0].Name != "name" || fmt.Sprint(q.Choices) != "[Decline]" {
		t.Fatalf("asked %+v with %s, %v", q, q.Form, err)
	}
	fill(q, `{"q":{"name":"too long"}}`)
	if q = asked(); !strings.Contains(q.Prompt, `at most 5 characters`) {
		t.Errorf("asked again %q", q.Prompt)
	}
	fill(q, `{"q":{"name":"Ada","some":["b","a"]}}`)
	d.want("a form", `accept {"name":"Ada","some":["b","a"]}`)

	d.call("t", "nested", "ask", `{"form":`+nested+`}`)
	d.want("a nested form", "decline null")

	d.call("t", "several", "several", `{}`)
	q = asked()
	if f, err = form.Parse(q.Form); err != nil || len(f.Questions) != 2 || f.Question("user") == nil {
		t.Fatalf("asked %s, %v", q.Form, err)
	}
	other := f.Questions[0].Name
	if other == "user" {
		other = f.Questions[1].Name
	}
	fill(q, `{"user":{"name":"Ada"},"`+other+`":{"sure":true}}`)
	d.want("several", `{"bad":{"action":"decline"},"not a name!":{"action":"accept","content":{"sure":true}},"user":{"action":"accept","content":{"name":"Ada"}}}`)

	d.call("t", "part", "several", `{}`)
	fill(asked(), `{"user":{"name":"Ada"}}`)
	d.want("several in part", `{"bad":{"action":"decline"},"not a name!":{"action":"decline"},"user":{"action":"accept","content":{"name":"Ada"}}}`)
}
