package mcpserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
)

// What a call asks its user is an elicitation: a choice is a form, an authorization a URL. A form of several questions is as many
// elicitations, which are open at once.

// promptKey names a prompt in the messages of MCP, for the life of its call.
func promptKey(p *host.CallPrompt) string { return "p" + strconv.Itoa(p.Number) }

// numberOf returns the number of the prompt with a name, and 0 if there can be none.
func numberOf(key string) int {
	text, ok := strings.CutPrefix(key, "p")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 || key != "p"+strconv.Itoa(n) {
		return 0
	}
	return n
}

// questionKey names a question of the form of a prompt, for the life of its call: as the tool has named it, with the number of the
// prompt behind it if that is not the first, or if the name could be that of a prompt.
func questionKey(p *host.CallPrompt, name string) string {
	if p.Number == 1 && numberOf(name) == 0 {
		return name
	}
	return name + "." + strconv.Itoa(p.Number)
}

// requestsOf returns what a client is to show of a prompt, by names.
func requestsOf(p *host.CallPrompt) mcp.InputRequestMap {
	if p.Form.IsZero() {
		return mcp.InputRequestMap{promptKey(p): elicitation(p, "")}
	}
	all := mcp.InputRequestMap{}
	for i := range p.Form.Questions {
		q := &p.Form.Questions[i]
		if e, err := elicitationOf(p, q); err == nil {
			all[questionKey(p, q.Name)] = e
		}
	}
	return all
}

// elicitationOf returns a question of a form as a client shows it.
func elicitationOf(p *host.CallPrompt, q *form.Question) (*mcp.ElicitParams, error) {
	schema, err := q.Schema()
	if err != nil {
		return nil, err
	}
	return &mcp.ElicitParams{Mode: "form", Message: cmp.Or(q.Message, p.Choice.Prompt), RequestedSchema: json.RawMessage(schema)}, nil
}

// filledIn returns what an answer fills in of a question: nil if the user has declined. It reports false for one that is no answer to
// the question: that stays open.
func filledIn(q *form.Question, answer json.RawMessage) (values jsontext.Value, ok bool) {
	var a struct {
		Action  string         `json:"action"`
		Content jsontext.Value `json:"content"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return nil, false
	}
	switch a.Action {
	case "decline", "cancel":
		return nil, true
	case "accept":
		if a.Content == nil { // a question without fields
			a.Content = jsontext.Value("{}")
		}
		return a.Content, q.Check(a.Content) == nil
	}
	return nil, false
}

// A client's means to ask its user.
type means struct{ form, url bool }

func meansOf(c *mcp.ClientCapabilities) means {
	if c == nil || c.Elicitation == nil {
		return means{}
	}
	e := c.Elicitation
	return means{form: e.Form != nil || e.URL == nil, url: e.URL != nil}
}

// canAsk reports whether a client can show a prompt.
func (m means) canAsk(p *host.CallPrompt) bool {
	if p.Choice != nil {
		return m.form
	}
	return m.url
}

// isYesNo reports whether a choice is between Yes and No, which is a boolean.
func isYesNo(c *agentproto.UserChoice) bool {
	return len(c.Choices) == 2 && c.Choices[0] == "Yes" && c.Choices[1] == "No"
}

// The members of the forms.
const (
	memberConfirm = "confirm"
	memberChoice  = "choice"
)

// elicitation returns a prompt as a client shows it. The id is for clients of older revisions, which need one in URL mode.
func elicitation(p *host.CallPrompt, id string) *mcp.ElicitParams {
	if p.OAuth != nil {
		return &mcp.ElicitParams{Mode: "url", Message: "The tool needs your authorization at " + hostIn(p.OAuth.AuthURL) + ".", URL: p.OAuth.AuthURL, ElicitationID: id}
	}
	member, schema := memberChoice, map[string]any{"type": "string", "default": strconv.Itoa(p.Choice.Default)}
	if isYesNo(p.Choice) {
		member, schema = memberConfirm, map[string]any{"type": "boolean", "default": p.Choice.Default == 0}
	} else {
		var one []any
		for i, c := range p.Choice.Choices {
			one = append(one, map[string]any{"const": strconv.Itoa(i), "title": c})
		}
		schema["oneOf"] = one
	}
	return &mcp.ElicitParams{Mode: "form", Message: p.Choice.Prompt, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{member: schema}, "required": []string{member},
	}}
}

// hostIn returns the host of a URL, which is shown to the user in place of it.
func hostIn(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "an unknown host"
	}
	return u.Host
}

// selectionOf returns what an answer selects. It reports false for one that is no answer to the prompt: that stays open.
func selectionOf(c *agentproto.UserChoice, answer json.RawMessage) (selected int, ok bool) {
	var a struct {
		Action  string                     `json:"action"`
		Content map[string]json.RawMessage `json:"content"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0, false
	}
	switch a.Action {
	case "decline", "cancel":
		return host.Dismiss, true
	case "accept":
	default:
		return 0, false
	}
	if len(a.Content) != 1 {
		return 0, false
	}
	if isYesNo(c) {
		switch strings.TrimSpace(string(a.Content[memberConfirm])) {
		case "true":
			return 0, true
		case "false":
			return 1, true
		}
		return 0, false
	}
	var text string
	if json.Unmarshal(a.Content[memberChoice], &text) != nil {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= len(c.Choices) || text != strconv.Itoa(n) {
		return 0, false
	}
	return n, true
}

// actionOf returns the action of an answer.
func actionOf(answer json.RawMessage) string {
	var a struct {
		Action string `json:"action"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return ""
	}
	return a.Action
}

// waitsFor says in words what a call waits for that a client cannot show, without a URL.
func waitsFor(p *host.CallPrompt) string {
	if p.OAuth != nil {
		return "waits for authorization at " + hostIn(p.OAuth.AuthURL)
	}
	if !p.Form.IsZero() {
		return "waits for a form that this client cannot show"
	}
	return fmt.Sprintf("waits for a choice of %d that this client cannot show", len(p.Choice.Choices))
}
