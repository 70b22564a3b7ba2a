package toolserver

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"
)

// questionKey names a question of a call: by what is asked, and how often the same
// was asked before in this run of the function.
func (c *call) questionKey(prompt string, choices []string, def int) ([]byte, error) {
	text, err := json.Marshal([]any{prompt, choices, def})
	if err != nil {
		return nil, err
	}
	d := sha256.Sum256(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = make(map[digest]int)
	}
	n := c.asked[d]
	c.asked[d]++
	key := append(c.id[:len(c.id):len(c.id)], d[:]...)
	return binary.BigEndian.AppendUint32(key, uint32(n)), nil
}

// ask posts a question, and keeps with the message what an answer needs.
func (c *call) ask(m *message, q *question, secret digest) error {
	data, err := json.Marshal(questionRecord{Secret: secret, Choices: q.choices, Asked: q.asked.Round(0), Message: q.message, URL: c.server.opts.PublicURL})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.postable(); err != nil {
		return err
	}
	return c.put(m, func(tx tx) error { return tx.put(questionBucket, q.key, data) })
}

// unask forgets a question that did not reach the user.
func (c *call) unask(q *question) {
	if err := c.server.store.update(func(tx tx) error { return tx.delete(questionBucket, q.key) }); err != nil {
		c.server.log.Warn("question is still in the store", "tool", c.inv.Operation, "error", err)
	}
}

// lost returns the channel that tells why a message could not be delivered, or nil if
// the message is not waiting for its delivery.
func (c *call) lost(id string) <-chan error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.queue {
		if m.id == id {
			return m.lost
		}
	}
	return nil
}

// asked returns the question of that name that was asked before a restart, or nil.
func (cs *choices) asked(key []byte) (*question, digest) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k := cs.again[string(key)]
	delete(cs.again, string(key))
	return k.question, k.secret
}

// loadQuestions opens the questions of a call that is about to run again. Those of a call
// that has its result are closed: a runtime that did not see that its answer was taken
// sends it again, and must not be told that there was no question.
func (c *call) loadQuestions(tx tx) (err error) {
	cs := &c.server.choices
	tx.each(questionBucket, c.id[:], func(k, v []byte) bool {
		var r questionRecord
		if err = json.Unmarshal(v, &r); err != nil {
			return false
		}
		if r.URL != c.server.opts.PublicURL {
			return true
		}
		if c.phase != running {
			cs.mu.Lock()
			defer cs.mu.Unlock()
			cs.answered.add(r.Secret)
			return true
		}
		q := &question{call: c, key: append([]byte(nil), k...), choices: r.Choices, asked: r.Asked, message: r.Message, answer: make(chan answer, 1)}
		if r.Answer == nil && time.Since(r.Asked) < c.server.opts.ChoiceTimeout {
			cs.put(r.Secret, q)
		} else {
			cs.mu.Lock()
			cs.answered.add(r.Secret)
			cs.mu.Unlock()
		}
		switch {
		case r.Answer != nil && *r.Answer < 0:
			q.answer <- answer{err: ErrBadAnswer}
		case r.Answer != nil:
			q.answer <- answer{selected: *r.Answer}
		}
		cs.mu.Lock()
		defer cs.mu.Unlock()
		if cs.again == nil {
			cs.again = make(map[string]kept)
		}
		cs.again[string(k)] = kept{r.Secret, q}
		return true
	})
	return err
}
