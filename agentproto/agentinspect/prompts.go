package agentinspect

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/plain"
)

// A prompt is what a user is asked for a call, as JSON has it. All texts are the tool server's.
type prompt struct {
	Thread    string    `json:"thread"`
	ID        string    `json:"id"` // of the call
	Operation string    `json:"operation,omitempty"`
	Toolset   string    `json:"toolset,omitempty"`
	Since     time.Time `json:"since"`
	AuthURL   string    `json:"auth_url,omitempty"`
	Host      string    `json:"host,omitempty"` // where AuthURL leads, as it cannot be taken for another one
	Prompt    string    `json:"prompt,omitempty"`
	Choices   []string  `json:"choices,omitempty"`
	Default   int       `json:"default,omitempty"`
}

// promptsOf returns what users are asked, the oldest first.
func (v *view) promptsOf(wanted func(prompt) bool) []prompt {
	all := []prompt{}
	for _, open := range v.rt.Prompts() {
		p := prompt{Thread: open.Key.GroupID, ID: open.Key.ID, Operation: open.Operation, Toolset: open.Toolset, Since: open.Since.UTC()}
		if !wanted(p) {
			continue
		}
		if open.Choice != nil {
			p.Prompt, p.Default = cut(open.Choice.Prompt), open.Choice.Default
			for _, c := range open.Choice.Choices {
				p.Choices = append(p.Choices, cut(c))
			}
		} else {
			p.AuthURL, p.Host, _ = plain.URL(open.OAuth.AuthURL)
		}
		all = append(all, p)
	}
	return all
}

// prompts shows what users are asked.
func (v *view) prompts(q request) error {
	all := v.promptsOf(func(prompt) bool { return true })
	return q.show("prompts", "prompts", struct {
		At       time.Time `json:"at"`
		Prompts  []prompt  `json:"prompts"`
		Answers  bool      `json:"-"`
		Answered bool      `json:"-"`
	}{time.Now().UTC(), all, v.options.Answers, q.r.URL.Query().Has("answered")})
}

// takeAnswer takes the answer to a prompt from a form, and leads to the prompts that are left.
func (v *view) takeAnswer(q request) error {
	if !v.options.Answers || !q.page.Values() {
		return problem{http.StatusForbidden, "nothing can be answered here: see agentinspect.Options.Answers"}
	}
	form, err := edge.ReadForm(q.w, q.r)
	if err != nil {
		return problem{http.StatusBadRequest, "the answer is no form: " + err.Error()}
	}
	key := agentproto.CallKey{GroupID: form.Get("thread"), ID: form.Get("id")}
	selected, err := strconv.Atoi(form.Get("selected"))
	if err != nil {
		return problem{http.StatusBadRequest, `"selected" is the number of a choice`}
	}
	since, err := time.Parse(time.RFC3339Nano, form.Get("since"))
	if err != nil {
		return problem{http.StatusBadRequest, `"since" is when the prompt was shown`}
	}
	for _, open := range v.rt.Prompts() {
		// A form of an earlier prompt of the call is no answer to this one.
		if open.Key != key || open.Choice == nil || !open.Since.Equal(since) {
			continue
		}
		switch err := v.rt.Answer(q.r.Context(), key, open.Choice.ResponseURL, selected); {
		case errors.Is(err, host.ErrBadChoice):
			return problem{http.StatusBadRequest, err.Error()}
		case err != nil:
			return err
		}
		q.w.Header().Set("Location", "prompts?answered=1")
		q.w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	return problem{http.StatusNotFound, "this is not asked: it was answered, or taken back"}
}
