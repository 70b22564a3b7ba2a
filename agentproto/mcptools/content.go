package mcptools

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
)

// resultOf converts the answer of an MCP server to a result. An attachment of more than most bytes is
// replaced by a line that says so.
func resultOf(res *mcp.CallToolResult, most int) *agentproto.ToolResult {
	var items []agentproto.Content
	var user []agentproto.Display // parts for the user alone
	forModel := slices.ContainsFunc(res.Content, func(c mcp.Content) bool { return !onlyUser(c) })
	for _, c := range res.Content {
		item := contentOf(c, most)
		if onlyUser(c) && item.Type == agentproto.KindText {
			user = append(user, agentproto.Display{Type: agentproto.KindText, Text: item.Text})
			if forModel {
				continue
			}
		}
		items = append(items, item)
	}
	if text, ok := structured(res); ok {
		items = append(items, agentproto.Content{Type: agentproto.KindText, Text: text})
	}
	if res.IsError {
		items = asError(items)
	}
	out := &agentproto.ToolResult{DisplayAs: user}
	switch {
	case len(items) == 0:
		out.Text = new(string)
	case len(items) == 1 && items[0].Type == agentproto.KindText:
		out.Text = &items[0].Text
	default:
		out.Content = items
	}
	return out
}

// asError marks the first text of a result as an error.
func asError(items []agentproto.Content) []agentproto.Content {
	const mark = "Error: "
	i := slices.IndexFunc(items, func(c agentproto.Content) bool { return c.Type == agentproto.KindText })
	if i < 0 {
		return append([]agentproto.Content{{Type: agentproto.KindText, Text: mark + "the tool failed"}}, items...)
	}
	text := items[i]
	if !strings.HasPrefix(text.Text, mark) {
		text.Text = mark + text.Text
	}
	items = slices.Delete(items, i, i+1) // the mark counts only at the very beginning
	return append([]agentproto.Content{text}, items...)
}

// onlyUser reports whether a part is for the user and not for the model.
func onlyUser(c mcp.Content) bool {
	var a *mcp.Annotations
	switch c := c.(type) {
	case *mcp.TextContent:
		a = c.Annotations
	case *mcp.ImageContent:
		a = c.Annotations
	case *mcp.AudioContent:
		a = c.Annotations
	case *mcp.ResourceLink:
		a = c.Annotations
	case *mcp.EmbeddedResource:
		a = c.Annotations
	}
	return a != nil && len(a.Audience) > 0 && !slices.Contains(a.Audience, "assistant")
}

func contentOf(c mcp.Content, most int) agentproto.Content {
	switch c := c.(type) {
	case *mcp.TextContent:
		return text("%s", c.Text)
	case *mcp.ImageContent:
		return attached("image", c.MIMEType, c.Data, most)
	case *mcp.AudioContent:
		return text("[audio, %s, %d bytes]", short(c.MIMEType), len(c.Data))
	case *mcp.ResourceLink:
		return text("[resource] %s: %s%s", short(c.Name), short(c.URI), inBrackets(c.MIMEType))
	case *mcp.EmbeddedResource:
		r := c.Resource
		switch {
		case r == nil:
			return text("[a resource without contents]")
		case r.Blob == nil:
			return text("%s\n%s", short(r.URI), r.Text)
		case strings.HasPrefix(r.MIMEType, "image/"):
			return attached("resource "+short(r.URI), r.MIMEType, r.Blob, most)
		}
		return text("[resource %s, %s, %d bytes]", short(r.URI), short(r.MIMEType), len(r.Blob))
	}
	return text("[content of an unknown kind]")
}

func text(format string, args ...any) agentproto.Content {
	return agentproto.Content{Type: agentproto.KindText, Text: strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")}
}

// attached returns an image, or a text in its place if the data is not an image or too large.
func attached(what, media string, data []byte, most int) agentproto.Content {
	switch {
	case len(data) > most:
		return text("[%s, %d bytes, left out]", what, len(data))
	case !strings.HasPrefix(media, "image/") || len(media) > 64 || len(data) == 0:
		return text("[%s, %s, %d bytes]", what, short(media), len(data))
	}
	return agentproto.Content{Type: agentproto.KindImage, Data: base64.StdEncoding.EncodeToString(data), MediaType: media}
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return " (" + short(s) + ")"
}

// structured returns the structured content of a result, unless a text contains the same value.
func structured(res *mcp.CallToolResult) (string, bool) {
	if res.StructuredContent == nil {
		return "", false
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(res.StructuredContent) != nil {
		return "", false
	}
	data := bytes.TrimSpace(b.Bytes())
	var value any
	if json.Unmarshal(data, &value) != nil {
		return "", false
	}
	for _, c := range res.Content {
		var same any
		if t, ok := c.(*mcp.TextContent); ok && json.Unmarshal([]byte(t.Text), &same) == nil && reflect.DeepEqual(same, value) {
			return "", false
		}
	}
	return string(data), true
}

// short returns a text of a server for use within a line: at most 256 bytes, without control
// characters.
func short(s string) string { return line(s, 256) }

func line(s string, most int) string {
	s = strings.ToValidUTF8(s[:min(len(s), most)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
