package conform

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/edge"
)

// A posted is the answer to a callback.
type posted struct {
	Status int
	Header http.Header
	Err    error // set if there was no answer
}

// refused reports whether the runtime rejects the message for good.
func (p posted) refused() bool { return p.Status >= 400 && p.Status < 500 }

// poster posts callbacks as many tools do: without a proxy and without following redirects.
var poster = edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext, Idle: 256}.Transport()).Standard(0, 20*time.Second)

// post posts a body to a callback URL. Headers are alternating names and values.
func (t *runtimeTrial) post(url, body string, headers ...string) posted {
	return t.send(http.MethodPost, url, strings.NewReader(body), headers...)
}

func (t *runtimeTrial) send(method, url string, body io.Reader, headers ...string) posted {
	req, err := http.NewRequestWithContext(t.ctx, method, url, body)
	if err != nil {
		return posted{Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := poster.Do(req)
	if err != nil {
		return posted{Err: err}
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)) // only the status matters
	return posted{Status: resp.StatusCode, Header: resp.Header}
}

// message posts a message, and repeats it while the runtime asks for that.
func (t *runtimeTrial) message(url string, m map[string]any, headers ...string) posted {
	body := jsonOf(m)
	var p posted
	t.within(3*patience, "the runtime takes a callback in", func() bool {
		p = t.post(url, body, headers...)
		return p.Err == nil && p.Status < 500
	})
	return p
}

// jsonOf encodes a message without HTML escapes.
func jsonOf(m any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic(err) // a message of a case is plain data
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// with returns a message with changed members; nil removes one.
func with(m, change map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range change {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	return m
}

type fields = map[string]any

// resultOf returns a tool_result with a text.
func (inv *invocation) resultOf(text string) map[string]any {
	return inv.about("tool_result", fields{"text": text})
}

// contentOf returns a tool_result with content.
func (inv *invocation) contentOf(items ...map[string]any) map[string]any {
	return inv.about("tool_result", fields{"content": items})
}

func textItem(text string) map[string]any { return fields{"type": "text", "text": text} }

func imageItem(mediaType, data string) map[string]any {
	return fields{"type": "image", "data": data, "mediaType": mediaType}
}

// oauthOf returns an oauth message.
func (inv *invocation) oauthOf(url string) map[string]any {
	return inv.about("oauth", fields{"auth_url": url})
}

// choiceOf returns a user_choice of no, once and always.
func (inv *invocation) choiceOf(responseURL string) map[string]any {
	return inv.about("user_choice", fields{
		"prompt": "May I?", "choices": []string{"no", "once", "always"}, "default": 2, "response_url": responseURL,
	})
}

// eventOf returns an event of the subscription that the call opened, shown inline.
func (inv *invocation) eventOf(text string) map[string]any {
	return fields{"type": "subscription_event", "group_id": inv.GroupID, "tool_call_id": inv.ID, "text": text, "associative": true}
}

// viewOf returns a view_update.
func (inv *invocation) viewOf(viewType string, content any) map[string]any {
	return fields{"type": "view_update", "group_id": inv.GroupID, "view_type": viewType, "content": content}
}

func (inv *invocation) about(kind string, m map[string]any) map[string]any {
	m["type"], m["group_id"], m["id"] = kind, inv.GroupID, inv.ID
	if inv.CallID != nil {
		m["call_id"] = *inv.CallID
	}
	return m
}

// deliver posts a message about a call, which must be accepted.
func (s *scriptedTool) deliver(inv *invocation, m map[string]any, headers ...string) {
	p := s.t.message(inv.CallbackURL, m, headers...)
	s.t.want(p.Status == http.StatusOK, "a good %v was answered %d, not 200", m["type"], p.Status)
}

// finish delivers a text as the result.
func (s *scriptedTool) finish(inv *invocation, text string) { s.deliver(inv, inv.resultOf(text)) }

// subscribe makes a call open a subscription.
func (s *scriptedTool) subscribe(h *trialThread, id string) *invocation {
	inv := s.begin(h, id)
	s.deliver(inv, with(inv.resultOf("subscribed "+id), fields{"subscription": true}))
	h.resolved(id, "subscribed "+id)
	h.t.until("the subscription is tracked", func() bool { return h.see().subscribed(id) })
	return inv
}
