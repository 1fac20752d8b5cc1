int module_answers(void);

/* Something to load. */
int module_answers(void) { return 42; }
