package inspect

import "github.com/millrace/millrace/dataflow"

// A graph is a [dataflow.Graph] in JSON.
type graph struct {
	Name      string     `json:"name"`
	Locations []string   `json:"locations"`
	Slices    []cut      `json:"slices"`
	Operators []operator `json:"operators"`
	Edges     []link     `json:"edges"`
}

type cut struct {
	Location int    `json:"location"`
	Pos      string `json:"pos"`
}

type operator struct {
	Name     string  `json:"name"`
	Port     string  `json:"port,omitempty"`
	Label    string  `json:"label,omitempty"`
	Pos      string  `json:"pos"`
	Func     string  `json:"func,omitempty"` // the function that made it
	Keeps    bool    `json:"keeps"`
	States   []state `json:"states,omitempty"`
	Why      string  `json:"why,omitempty"`
	Proof    string  `json:"proof,omitempty"`
	Location int     `json:"location"`
	Slice    int     `json:"slice"` // -1 outside of slices
}

// A state is a part of what an operator remembers.
type state struct {
	Kind string `json:"kind"`
	Key  string `json:"key,omitempty"` // the type of the keys for v1/keys
}

type link struct {
	From int  `json:"from"`
	To   int  `json:"to"`
	Back bool `json:"back,omitempty"`
}

func graphJSON(name string, g dataflow.Graph) graph {
	j := graph{Name: name, Locations: g.Locations, Slices: []cut{}, Operators: []operator{}, Edges: []link{}}
	for _, s := range g.Slices {
		j.Slices = append(j.Slices, cut(s))
	}
	for _, o := range g.Operators {
		by, states := "", []state(nil)
		for _, s := range o.States {
			is := state{Kind: s.Kind}
			if s.Key != nil {
				is.Key = s.Key.String()
			}
			states = append(states, is)
		}
		if len(o.Stack) > 0 {
			by = o.Stack[len(o.Stack)-1].Func
		}
		j.Operators = append(j.Operators, operator{o.Name, o.Port, o.Label, o.Pos, by, o.Keeps, states, string(o.Why), string(o.Proof), o.Location, o.Slice})
	}
	for _, e := range g.Edges {
		j.Edges = append(j.Edges, link(e))
	}
	return j
}
