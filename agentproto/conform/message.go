package conform

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A message is a request to a callback address.
type message struct {
	at     time.Time
	method string
	header http.Header
	raw    string
	kind   string         // its type member
	m      map[string]any // its members
	answer answer         // the answer it got
	wrong  string         // what is wrong with its form, if anything
}

func newMessage(r *http.Request, body []byte, a answer) *message {
	m := &message{at: time.Now(), method: r.Method, header: r.Header, raw: string(body), answer: a}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Method != http.MethodPost:
		m.wrong = "the method is " + r.Method
	case err != nil || media != "application/json":
		m.wrong = fmt.Sprintf("the Content-Type is %q", r.Header.Get("Content-Type"))
	case json.Unmarshal(body, &m.m) != nil || m.m == nil:
		m.wrong = "the body is not a JSON object"
	default:
		m.kind, _ = m.m["type"].(string)
		m.wrong = m.form()
	}
	return m
}

// text returns a string member, or "" if the member is not a string.
func (m *message) text(name string) string {
	s, _ := m.m[name].(string)
	return s
}

// words returns what the model reads of a result: its text, or the texts in its content.
func (m *message) words() string {
	items, ok := m.m["content"].([]any)
	if !ok {
		return m.text("text")
	}
	var texts []string
	for _, item := range items {
		if item, ok := item.(map[string]any); ok {
			if s, ok := item["text"].(string); ok {
				texts = append(texts, s)
			}
		}
	}
	return strings.Join(texts, "\n")
}

// isError reports whether a result is an error.
func (m *message) isError() bool { return strings.HasPrefix(m.words(), "Error: ") }

func (m *message) String() string {
	if m.wrong != "" {
		return m.raw + " (" + m.wrong + ")"
	}
	return m.raw
}

// form returns what is wrong with the members of a message according to doc/protocol.md §5, or "".
func (m *message) form() string {
	str := func(names ...string) string {
		for _, n := range names {
			if _, ok := m.m[n].(string); !ok {
				return fmt.Sprintf("member %q is not a string", n)
			}
		}
		return ""
	}
	boolean := func(names ...string) string {
		for _, n := range names {
			if v, ok := m.m[n]; ok {
				if _, ok := v.(bool); !ok {
					return fmt.Sprintf("member %q is not true or false", n)
				}
			}
		}
		return ""
	}
	if id, ok := m.m["call_id"]; ok && id != nil {
		if _, ok := id.(string); !ok {
			return `member "call_id" is not a string`
		}
	}
	switch m.kind {
	case "tool_result":
		_, text := m.m["text"].(string)
		content, list := m.m["content"].([]any)
		if !text && !list {
			return "there is neither text nor content"
		}
		return first(str("group_id", "id"), boolean("subscription"), contentForm(content))
	case "subscription_event":
		return first(str("group_id", "tool_call_id", "text"), boolean("associative", "final"))
	case "oauth":
		if s := str("group_id", "id", "auth_url"); s != "" {
			return s
		}
		if u, err := url.Parse(m.text("auth_url")); err != nil || u.Scheme != "https" || u.Host == "" {
			return `member "auth_url" is not an https URL`
		}
	case "user_choice":
		choices, _ := m.m["choices"].([]any)
		def, ok := m.m["default"].(float64)
		for _, c := range choices {
			if _, ok := c.(string); !ok {
				return `member "choices" has something that is not a string`
			}
		}
		switch {
		case len(choices) == 0:
			return `member "choices" is empty`
		case !ok || def != float64(int(def)) || def < 0 || int(def) >= len(choices):
			return `member "default" is not the index of a choice`
		}
		return str("group_id", "id", "prompt", "response_url")
	case "view_update":
		if _, ok := m.m["content"].(map[string]any); !ok {
			return `member "content" is not an object`
		}
		return str("group_id", "view_type")
	default:
		return fmt.Sprintf("there is no type %q", m.kind)
	}
	return ""
}

func contentForm(items []any) string {
	for _, x := range items {
		item, _ := x.(map[string]any)
		switch item["type"] {
		case "text":
			if _, ok := item["text"].(string); !ok {
				return "a text item has no text"
			}
		case "image":
			if _, ok := item["data"].(string); !ok {
				return "an image item has no data"
			}
		default:
			return "a content item is neither text nor image"
		}
	}
	return ""
}

func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}
