package conversation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// A NamedModel is a [Model] that sessions can choose.
type NamedModel struct {
	Name  string // 1 to 64 letters, digits, and . _ - after the first character
	Model Model
	// Fallback names the models that are asked in its place, in order, if it does not answer. The fallbacks of a fallback are not
	// used.
	Fallback []string
	// Context is how many bytes of messages the model is shown. Each message counts 256 bytes in addition to its texts, and an
	// image 4 KiB. If there are more, the first messages are summarized: see [Summarized]. Zero means no bound.
	Context int
}

// Models is a set of named models. An [Agent] that has it as its Model asks the model that the thread's session names, see
// [Session].Model, and its fallbacks. A Models is immutable and safe for concurrent use.
type Models struct {
	all   map[string]NamedModel
	names []string
}

// modelName matches valid names of models.
var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// NewModels returns a set of models. The first is the default, for sessions that name none. The error says which name is invalid,
// is used twice, or is a fallback that is not in the set.
func NewModels(all ...NamedModel) (*Models, error) {
	if len(all) == 0 {
		return nil, errors.New("conversation: NewModels needs a model")
	}
	m := &Models{all: map[string]NamedModel{}}
	for _, named := range all {
		switch _, twice := m.all[named.Name]; {
		case !modelName.MatchString(named.Name):
			return nil, fmt.Errorf("conversation: a model cannot be called %q: a name has 1 to 64 letters, digits, and . _ - behind the first one", named.Name)
		case twice:
			return nil, fmt.Errorf("conversation: there are two models %q", named.Name)
		case named.Model == nil:
			return nil, fmt.Errorf("conversation: the model %q is nil", named.Name)
		case named.Context < 0:
			return nil, fmt.Errorf("conversation: the model %q is shown %d bytes", named.Name, named.Context)
		}
		m.all[named.Name] = named
		m.names = append(m.names, named.Name)
	}
	for _, named := range all {
		for i, name := range named.Fallback {
			if _, known := m.all[name]; !known {
				return nil, fmt.Errorf("conversation: the model %q falls back to %q, and there is none of that name: there are %q", named.Name, name, m.names)
			}
			if name == named.Name || slices.Contains(named.Fallback[:i], name) {
				return nil, fmt.Errorf("conversation: the model %q falls back to %q, which was asked before", named.Name, name)
			}
		}
	}
	return m, nil
}

// Names returns the names, the default first.
func (m *Models) Names() []string { return slices.Clone(m.names) }

// Has reports whether a session can name a model. The empty name means the default.
func (m *Models) Has(name string) bool {
	_, known := m.all[name]
	return known || name == ""
}

// Reply asks the model that r's session names and then its fallbacks, each once.
func (m *Models) Reply(ctx context.Context, r *Request) (reply *Reply, err error) {
	models, _ := m.of(r.Session)
	for _, named := range models {
		if reply, err = named.Model.Reply(ctx, r); err == nil || ctx.Err() != nil || !passesOn(err) {
			break
		}
	}
	return reply, err
}

// of returns the models to ask in a session, in order, and notes about the choice.
func (m *Models) of(s *Session) (models []NamedModel, notes []string) {
	first := m.names[0]
	if s != nil && s.Model != "" {
		if _, known := m.all[s.Model]; known {
			first = s.Model
		} else {
			notes = append(notes, fmt.Sprintf("The model %q is no longer configured.", s.Model))
		}
	}
	models = append(models, m.all[first])
	for _, name := range m.all[first].Fallback {
		models = append(models, m.all[name])
	}
	return models, notes
}

// modelsOf is [Models.of] for any model. A single model has no name, no fallback and no bound.
func modelsOf(m Model, s *Session) ([]NamedModel, []string) {
	if several, ok := m.(*Models); ok {
		return several.of(s)
	}
	return []NamedModel{{Model: m}}, nil
}

// leastContext returns the smallest bound of models, or zero if none has one, so that each is shown the same.
func leastContext(models []NamedModel) (least int) {
	for _, m := range models {
		if m.Context > 0 && (least == 0 || m.Context < least) {
			least = m.Context
		}
	}
	return least
}

// ModelCounts are an [Agent]'s counts for one model.
type ModelCounts struct {
	Requests  uint64 // how often it was asked
	Failures  uint64 // how many of these failed without being abandoned
	Fallbacks uint64 // rounds in which another model was asked after it
	Usage     Usage  // of the replies
}

// Counts returns the counts of each model since the agent was made, by the model's name. They do not include requests before a
// restart, nor a reply that arrived while the process ended.
func (a *Agent) Counts() map[string]ModelCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.counts)
}

// count changes the counts of a model.
func (a *Agent) count(model string, change func(c *ModelCounts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.counts[model]
	change(&c)
	a.counts[model] = c
}
