package conversation

import "slices"

// A round is one request to the model and its answer.

// abandon ends the running round, if any.
func (t *turn) abandon() {
	if t.s.Asking {
		t.s.Asking = false
		t.perform(Action{Kind: Abandon, Round: t.s.Round})
	}
}

// ask asks the model to continue.
func (t *turn) ask() {
	s := t.s
	if s.Rounds >= t.limits.Rounds {
		t.notice("The model was asked %d times without an end, and is not asked again.", s.Rounds)
		return
	}
	t.trim()
	s.Rounds++
	s.Round++
	s.Asking = true
	session := *s.Session
	t.perform(Action{Kind: Ask, Round: s.Round, Messages: s.Messages, Kept: s.Kept, Session: &session})
}

// answered handles the outcome of the running round.
func (t *turn) answered(o *Outcome) {
	switch s := t.s; {
	case o.Reply != nil:
		t.reply(o.Reply)
	case o.Summary != nil:
		t.summarized(o.Summary)
	case o.Failure != "":
		s.Asking = false
		t.notice("The model could not be asked: %s", o.Failure)
		t.flush()
	}
}

// reply handles the model's reply of the running round.
func (t *turn) reply(r *Reply) {
	s := t.s
	s.Asking = false
	t.use(r.Model, r.Usage)
	if len(r.Calls) == 0 {
		t.write(Message{Kind: Assistant, Text: r.Text, Usage: r.Usage, Model: r.Model, Notes: r.Notes})
		t.advance()
		return
	}
	calls := t.name(r.Calls)
	t.write(Message{Kind: Assistant, Text: r.Text, Calls: slices.Clone(calls), Usage: r.Usage, Model: r.Model, Notes: r.Notes})
	for i, c := range calls {
		o := Open{Call: c, Result: t.builtin(c)}
		if o.Result == nil && i >= t.limits.Calls {
			o.Result = textResult(c.ID, "Error: more than %d calls in one message", t.limits.Calls)
		}
		if o.Result == nil {
			t.perform(Action{Kind: MakeCall, Call: t.callOf(c)})
		}
		s.Batch = append(s.Batch, o)
	}
	t.advance()
}

// summarized handles a summary, which was requested in place of a reply. The model is then asked again, with the summary.
func (t *turn) summarized(sum *Summary) {
	s := t.s
	s.Asking = false
	t.use(sum.Model, sum.Usage)
	if before := s.Kept.Summary; before > 0 && before < s.Kept.First {
		t.drop(before, droppedMessage)
	}
	s.Kept.Summary, s.Kept.From = s.Messages, sum.From
	t.write(Message{Kind: Summarized, Text: sum.Text, From: sum.From, Usage: sum.Usage, Model: sum.Model, Notes: sum.Notes})
	t.ask()
}

// manyModels is the number of models whose usage a thread counts separately.
const manyModels = 64

// use adds what a model has read and written to the counts.
func (t *turn) use(model string, u Usage) {
	s := t.s
	s.Usage = s.Usage.Add(u)
	if _, known := s.Models[model]; !known && len(s.Models) >= manyModels {
		model = ""
	}
	if s.Models == nil {
		s.Models = map[string]Usage{}
	}
	s.Models[model] = s.Models[model].Add(u)
}
