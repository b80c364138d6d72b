"""What the device can prove about its outputs: sealed before they leave, delivered, receipts kept."""
