package journal

// A Limited is a [Log] that knows how large a record may be.
type Limited interface {
	Log

	// MaxRecord returns a number of bytes, up to which Append takes a record that is alone. It takes
	// few larger ones, if any.
	MaxRecord() int
}

// MaxRecord calls [Limited.MaxRecord] if the log supports it, and otherwise returns 0.
func MaxRecord(l Log) int {
	if l, ok := l.(Limited); ok {
		return l.MaxRecord()
	}
	return 0
}
