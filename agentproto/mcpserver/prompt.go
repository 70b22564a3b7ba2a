package mcpserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// What a call asks its user is an elicitation: a choice is a form, an authorization a URL.

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
	return fmt.Sprintf("waits for a choice of %d that this client cannot show", len(p.Choice.Choices))
}
