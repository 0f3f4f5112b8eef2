package guest

// A guest need not wait until every package of the program it is made from has
// initialised itself: that is about a millisecond of the four a session takes to
// start. This is the module's one init function; Main does the same, and is
// called all the same, because packages that sort before this one come first.
func init() { Main() }
