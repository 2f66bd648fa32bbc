"""Uses the idioms of some years ago: tensor types, DataParallel, a device by its number."""

import torch
from torch import nn
from torch.autograd import Variable

assert torch.cuda.is_available() and torch.cuda.device_count() == 1
torch.cuda.set_device(0)
dtype = torch.cuda.FloatTensor
weights = dtype([[1.0, 2.0], [3.0, 4.0]])  # waits without a line: a pageable upload
x = Variable(torch.ones(4, 2).cuda(0))  # waits: a pageable upload
assert x.type() == "torch.cuda.FloatTensor" and x.get_device() == torch.cuda.current_device()
model = nn.DataParallel(nn.Linear(2, 2).cuda())  # waits: a pageable upload x2
out = model(x.mm(weights))
with torch.cuda.device(0):
    other = torch.zeros(2, device=torch.cuda.current_device())
print(float(out.mean()))  # waits: a value
print((out + other).data.cpu().numpy().shape)  # waits: a download
