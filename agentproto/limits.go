package agentproto

// Limits are what a decoder accepts. A zero field means its default.
//
// Whatever the limits, an id has 1 to 1024 bytes, a URL at most 8192 bytes (an auth_url 4096), and a number must be within the
// range of a float64.
type Limits struct {
	Bytes       int64 // of the whole message; default 1 MiB
	Depth       int   // of nested objects and arrays; default 64
	Members     int   // members and elements in total; default 65,536
	StringBytes int   // of one string or member name, as written; default Bytes
	NumberBytes int   // of one number, as written; default 128
}

// The defaults of [Limits].
const (
	defaultBytes       = 1 << 20
	defaultDepth       = 64
	defaultMembers     = 1 << 16
	defaultNumberBytes = 128
)

// The lengths of single members.
const (
	maxNameRunes    = 128
	maxURLBytes     = 8192
	maxAuthURLBytes = 4096
)

func (l Limits) orDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.Depth <= 0 {
		l.Depth = defaultDepth
	}
	if l.Members <= 0 {
		l.Members = defaultMembers
	}
	if l.StringBytes <= 0 {
		l.StringBytes = int(min(l.Bytes, 1<<31-1))
	}
	if l.NumberBytes <= 0 {
		l.NumberBytes = defaultNumberBytes
	}
	return l
}
