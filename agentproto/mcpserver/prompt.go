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

// A question to the user is an elicitation: a choice is a form, and an authorization is a URL. A form of several questions is one
// elicitation for each, all open at once.

// promptKey names a prompt in MCP messages. The name is unique within its call.
func promptKey(p *host.CallPrompt) string { return "p" + strconv.Itoa(p.Number) }

// numberOf returns the number of the prompt with the given name, or 0 if the name is not that of a prompt.
func numberOf(key string) int {
	text, ok := strings.CutPrefix(key, "p")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 1 || key != "p"+strconv.Itoa(n) {
		return 0
	}
	return n
}

// questionKey names a question of the form of a prompt, uniquely within its call. It is the tool's name for the question,
// followed by the number of the prompt if that is not the first, or if the name could be that of a prompt.
func questionKey(p *host.CallPrompt, name string) string {
	if p.Number == 1 && numberOf(name) == 0 {
		return name
	}
	return name + "." + strconv.Itoa(p.Number)
}

// requestsOf returns the elicitations that a client has to show for a prompt, by name.
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

// elicitationOf returns the elicitation for a question of a form.
func elicitationOf(p *host.CallPrompt, q *form.Question) (*mcp.ElicitParams, error) {
	schema, err := q.Schema()
	if err != nil {
		return nil, err
	}
	return &mcp.ElicitParams{Mode: "form", Message: cmp.Or(q.Message, p.Choice.Prompt), RequestedSchema: json.RawMessage(schema)}, nil
}

// filledIn returns the values that an answer gives for a question: nil if the user has declined. It returns false if the answer
// does not fit the question, which then stays open.
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

// means are the ways in which a client can ask its user.
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

// Members of the forms for choices.
const (
	memberConfirm = "confirm"
	memberChoice  = "choice"
)

// elicitation returns the elicitation for a prompt. Clients of older revisions need the id in URL mode.
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

// hostIn returns the host of a URL, which is shown to the user instead of the URL.
func hostIn(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return "an unknown host"
	}
	return u.Host
}

// selectionOf returns the choice that an answer selects. It returns false if the answer does not fit the prompt, which then stays
// open.
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

// waitsFor describes, without a URL, what a call waits for if the client cannot show the prompt.
func waitsFor(p *host.CallPrompt) string {
	if p.OAuth != nil {
		return "waits for authorization at " + hostIn(p.OAuth.AuthURL)
	}
	if !p.Form.IsZero() {
		return "waits for a form that this client cannot show"
	}
	return fmt.Sprintf("waits for a choice of %d that this client cannot show", len(p.Choice.Choices))
}
